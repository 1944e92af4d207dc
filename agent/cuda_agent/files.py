"""Writes that are whole or not at all. A full disk is one sentence (`DiskError`), never half a file."""

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePath
from types import TracebackType
from typing import Self

from cuda_agent.errors import InfrastructureError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class DiskError(InfrastructureError):
    """A file of the run could not be written."""


@contextlib.contextmanager
def writing(path: PurePath) -> Iterator[None]:
    """Turn the operating system's refusals into one sentence.

    Raises:
        DiskError: the body raised OSError.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise DiskError(
                f"The disk is full: {str(path)!r} could not be written; free some space or name another --run-dir."
            ) from error
        raise DiskError(
            f"{str(path)!r} could not be written ({error.strerror or error}); name another --run-dir."
        ) from error


def replace(path: Path, data: bytes) -> None:
    """Write the file so that a reader sees the old bytes or the new ones, never a part.

    Raises:
        DiskError: it could not be written; what was there is unchanged.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with open(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise


class LineFile:
    """A file that grows by whole lines; after a failed write it ends where it ended before."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with writing(path):
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def append(self, line: bytes) -> None:
        """Add one line (its newline is added here) and hand it to the operating system.

        Raises:
            DiskError: there was no room for the whole line.
        """
        data = line + b"\n"
        before = os.fstat(self._fd).st_size
        with writing(self.path):
            try:
                written = 0
                while written < len(data):
                    written += os.write(self._fd, data[written:])
            except BaseException:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._fd, before)
                raise

    def close(self) -> None:
        """Close the file; closing twice is fine."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
