"""A terminal with somebody at it: a real pseudo-terminal, and what its screen shows."""

import fcntl
import os
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pyte

COLUMNS, ROWS = 80, 24
PROMPT = "(cuda-agent)"


class Terminal:
    """80 by 24 characters; a program runs in it."""

    def __init__(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> None:
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        # setsid makes it the controlling terminal: Ctrl-C typed here is a signal there.
        self.program = subprocess.Popen(
            ["setsid", "--ctty", *argv],
            cwd=cwd,
            env={**env, "TERM": "xterm-256color"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        self.raw = b""
        """Everything that came, escape sequences too."""
        self._screen = pyte.HistoryScreen(COLUMNS, ROWS, history=100_000, ratio=0.5)
        self._stream = pyte.ByteStream(self._screen)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.program.poll() is None:
            os.killpg(self.program.pid, signal.SIGTERM)
            self.program.wait(timeout=120)
        os.close(self._master)

    @property
    def text(self) -> str:
        """All lines so far, those that scrolled away first."""
        gone = ["".join(line[column].data for column in range(COLUMNS)) for line in self._screen.history.top]
        return "\n".join(line.rstrip() for line in [*gone, *self._screen.display]).rstrip()

    def type(self, keys: str) -> None:
        """Press keys; Enter is "\\r", Ctrl-C "\\x03"."""
        os.write(self._master, keys.encode())

    def wait_for(self, text: str, *, timeout_s: float = 300) -> str:
        """Wait until this was shown."""
        return self.until(lambda: text in self.text, text, timeout_s)

    def wait_for_count(self, text: str, count: int, *, timeout_s: float = 300) -> str:
        """Wait until this was shown so often."""
        return self.until(lambda: self.text.replace("\n", "").count(text) >= count, f"{count} times {text}", timeout_s)

    def wait_for_written(self, text: str, count: int, *, timeout_s: float = 300) -> str:
        """Wait until this was written so often, whatever took it off the screen again."""
        return self.until(lambda: self.raw.count(text.encode()) >= count, f"{count} times {text}", timeout_s)

    def wait_prompt(self, *, timeout_s: float = 300) -> str:
        """Wait until the last line is a prompt with nothing behind it."""
        return self.until(lambda: self.text.endswith(f"\n{PROMPT}"), "an empty prompt", timeout_s)

    def command(self, line: str, *, timeout_s: float = 300) -> str:
        """Type a command and return what was shown until the next prompt."""
        self.wait_prompt(timeout_s=timeout_s)
        before = self.text.count(PROMPT)
        start = len(self.text)
        self.type(line + "\r")
        self.until(
            lambda: self.text.count(PROMPT) > before and self.text.endswith(PROMPT),
            f"a prompt after {line!r}",
            timeout_s,
        )
        return self.text[start:]

    def leave(self, *, timeout_s: float = 300) -> int:
        """Wait for the program to end and return its exit code."""
        end = time.monotonic() + timeout_s
        while self._read(0.2) or self.program.poll() is None:
            assert time.monotonic() < end, self.text
        return self.program.wait()

    def until(self, reached: Callable[[], bool], what: str, timeout_s: float) -> str:
        """Wait until something holds of what was shown."""
        end = time.monotonic() + timeout_s
        while not reached():
            assert time.monotonic() < end, f"no {what!r} in:\n{self.text}"
            if not self._read(0.2):
                assert self.program.poll() is None, f"it ended before {what!r}:\n{self.text}"
        return self.text

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the other side is closed
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)
