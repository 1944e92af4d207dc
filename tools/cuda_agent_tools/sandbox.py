"""The sandbox as the tools need it: run a command, read a file, write a file.

What a command does (fail, time out, flood its output) is a value, `ExecResult`. A sandbox that is gone is not:
`SandboxLost` is raised and must never be shown to the model as a failed command.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

DEFAULT_MAX_BYTES = 1_000_000
"""How much of each output stream `exec` keeps unless told otherwise."""


class SandboxError(Exception):
    """The sandbox could not be started or used; the message says what to do."""


class SandboxLost(SandboxError):
    """The sandbox was there and is gone (container removed, workspace deleted)."""


@dataclass(frozen=True)
class ExecResult:
    """What one command did.

    Of each stream the first and the last half of `max_bytes` are kept and `*_dropped` counts the bytes between them,
    so that memory is bounded whatever the command prints.
    """

    exit_code: int | None
    """As a shell would report it (128 + n for signal n); None when the deadline killed it."""
    stdout: bytes
    stderr: bytes
    duration_s: float
    timed_out: bool = False
    stdout_dropped: int = 0
    stderr_dropped: int = 0


class Sandbox(Protocol):
    """A place where a model's commands run.

    Paths are POSIX paths as seen from inside; relative ones are taken from `workspace`.
    """

    workspace: str
    """The model's working directory."""
    state_dir: str
    """A directory beside the workspace for the tools' own state (the shell's variables, long outputs)."""

    def exec(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        timeout_s: float = 120.0,
        max_bytes: int = DEFAULT_MAX_BYTES,
        on_output: Callable[[bytes], None] | None = None,
    ) -> ExecResult:
        """Run `argv` and wait for it; at the deadline, and when it ends, every process it started is killed.

        Background children that hold the output open do not hold the call. `env` is added to the sandbox's own
        environment. `on_output` sees both streams as they come.

        Raises:
            FileNotFoundError: `argv[0]` does not exist.
            NotADirectoryError: `cwd` is not a directory.
            SandboxLost: the sandbox is gone.
        """
        ...

    def read(self, path: str, *, max_bytes: int = 50_000_000) -> bytes:
        """Return the file's bytes.

        Raises:
            FileNotFoundError, IsADirectoryError, PermissionError: as their names say.
            ValueError: the file is larger than `max_bytes`.
            SandboxLost: the sandbox is gone.
        """
        ...

    def write(self, path: str, data: bytes) -> None:
        """Write the file whole (parents are made), with the present time as its mtime.

        Raises:
            IsADirectoryError, NotADirectoryError, PermissionError: as their names say.
            OSError: anything else, disk full for one.
            SandboxLost: the sandbox is gone.
        """
        ...
