"""A command as it is handed to a supervisor, and the bounded part of its output that is kept."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

CHUNK = 1 << 16
"""How much is read at once."""


@dataclass(frozen=True)
class Command:
    """What to run; `cwd` is absolute, `env` is the whole environment."""

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    stdin: bytes
    timeout_s: float
    max_bytes: int

    def check(self) -> None:
        """See whether any system can run it.

        Raises:
            ValueError: none can.
        """
        names = [name for name in self.env if "=" in name or not name]
        texts = (*self.argv, self.cwd, *self.env.values())
        if not self.argv or names or any("\0" in text for text in texts):
            raise ValueError("a command needs at least one word, and no NUL characters or '=' in a variable's name")

    def request(self, *more_env: str) -> bytes:
        """Return it as `supervisor.py` reads it; `more_env` are KEY=VALUE."""
        env = [f"{key}={value}" for key, value in self.env.items()]
        fields = [repr(float(self.timeout_s)), self.cwd, str(len(self.argv)), *self.argv, *env, *more_env]
        return b"\0".join(os.fsencode(text) for text in fields)

    def raise_not_started(self, number: int, step: str) -> None:
        """Say by an exception why it could not be started; `step` is what failed, `cwd` or `exec`.

        Raises:
            OSError: always, of the kind that the number stands for.
        """
        if step == "cwd":
            kind = PermissionError if number in (1, 13) else NotADirectoryError
            raise kind(number, "not a directory to run in", self.cwd)
        raise OSError(number, os.strerror(number), self.argv[0])


@dataclass
class Capture:
    """The first and the last half of `limit` bytes of a stream, whatever its length."""

    limit: int
    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    total: int = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        self.total += len(data)
        room = self.limit // 2 - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        self.tail += data
        if len(self.tail) > 2 * self._tail_limit + CHUNK:  # seldom, so that a long stream is not copied again and again
            self._trim()

    @property
    def _tail_limit(self) -> int:
        return self.limit - self.limit // 2

    def _trim(self) -> None:
        excess = len(self.tail) - self._tail_limit
        if excess > 0:
            del self.tail[:excess]

    def finish(self) -> tuple[bytes, int]:
        """Return what is kept and how many bytes between the halves are not."""
        self._trim()
        kept = bytes(self.head + self.tail)
        return kept, self.total - len(kept)
