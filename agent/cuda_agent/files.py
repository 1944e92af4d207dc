"""Writes that are whole or not at all. A full disk is one sentence (`DiskError`), never half a file."""

import contextlib
import errno
import fcntl
import json
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from types import TracebackType
from typing import Self

from cuda_agent.errors import InfrastructureError, UsageError

_CHILD_S = 2.0
_ELSEWHERE = "name another folder with --run-dir (for a batch --batch-dir)"
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class DiskError(InfrastructureError):
    """A file of the run could not be written."""

    kind = "disk"


class FileInUse(UsageError):
    """Another process writes the file."""


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
                f"The disk is full: {str(path)!r} could not be written; free some space or {_ELSEWHERE}."
            ) from error
        raise DiskError(f"{str(path)!r} could not be written ({error.strerror or error}); {_ELSEWHERE}.") from error


def replace(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write the file so that a reader sees the old bytes or the new ones, never a part.

    `durable` waits until the disk has it; without, a power cut may lose the file, a crash of the program does not.

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
                if durable:
                    os.fsync(file.fileno())
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise


@dataclass(frozen=True)
class WholeLines:
    """What a crash left of a file of JSON lines."""

    lines: tuple[bytes, ...]
    end: int
    """Where the last whole line ends, without its newline, in bytes from the file's start."""
    lost: int
    """So many bytes behind it are the rest of a write that did not come to its end; newlines are not counted."""


def whole_lines(data: bytes) -> WholeLines:
    """Leave out what a crash can leave at the end of a file of JSON lines: a line cut off, or NULs."""
    text = data.rstrip(b"\0\n \r\t")
    head, _, last = text.rpartition(b"\n")
    ended = data[len(text) : len(text) + 1] == b"\n"
    if not _is_object(last) and (b"\0" in last or not ended):
        text = head.rstrip(b"\0\n \r\t")
    lost = len(data[len(text) :].strip(b"\n"))
    return WholeLines(tuple(text.split(b"\n")) if text else (), len(text), lost)


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class LineFile:
    """A file that grows by whole lines; after a failed write it ends where it ended before."""

    def __init__(self, path: Path, *, alone: bool = False) -> None:
        """Open the file; `alone` keeps every other writer out as long as this one lives, however it ends.

        Raises:
            FileInUse: another process has it, alone.
            DiskError: it cannot be opened.
        """
        self.path = path
        with writing(path):
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        if alone:
            self._lock()

    def _lock(self) -> None:
        # A child that a killed process was just making has the lock, too, until it becomes its program.
        deadline = time.monotonic() + _CHILD_S
        try:
            while not _locked(self._fd):
                if time.monotonic() >= deadline:
                    self.close()
                    raise FileInUse(f"{str(self.path)!r} is being written by another process.")
                time.sleep(0.02)
        except OSError as error:
            # Some network file systems have no locks: a run goes on there without one.
            if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP):
                self.close()
                raise DiskError(f"{str(self.path)!r} could not be locked ({error.strerror}).") from error

    @property
    def size(self) -> int:
        """How long it is, in bytes."""
        return os.fstat(self._fd).st_size

    def cut(self, size: int) -> None:
        """Leave the first `size` bytes, whole lines but for the last newline, and put that behind them.

        Raises:
            DiskError: the file system refused.
        """
        with writing(self.path):
            ended = self.size == size + 1 and os.pread(self._fd, 1, size) == b"\n"
            if not ended:
                os.ftruncate(self._fd, size)
                if size:
                    os.write(self._fd, b"\n")

    def append(self, line: bytes) -> None:
        """Add one line (its newline is added here) and hand it to the operating system.

        Raises:
            DiskError: there was no room for the whole line.
        """
        data = line + b"\n"
        before = self.size
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
