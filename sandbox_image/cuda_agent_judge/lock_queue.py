"""Locks of the whole machine, granted in the order of asking.

All of them lie in one directory. Who wants a resource draws a ticket: a file with the next number, on which it keeps an
flock. Its turn has come when fewer than `places` lower tickets are held. An flock dies with its process, so whoever is
killed, holding or waiting, is out of the line at once. Standard library only.
"""

import contextlib
import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from cuda_agent_judge.flocks import locked

DOOR_LIMIT_S = 30.0
"""Tickets are drawn in a few system calls: a door that is shut for so long is held by somebody who never draws one."""
POLL_S = 0.02
_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_NAME = re.compile(r"[A-Za-z0-9-]{1,80}")


class LockFault(Exception):
    """The directory cannot be used; the message says why."""


class StillHeld(Exception):
    """The turn did not come in time."""


class LockQueue:
    """The line for one resource with room for `places` holders at a time; one object takes one place."""

    def __init__(self, directory: Path, resource: str, places: int = 1) -> None:
        if not _NAME.fullmatch(resource):
            raise ValueError(f"{resource!r} cannot name a lock")
        self._path = directory
        self._resource = resource
        self._places = places
        self._ticket = -1
        self._number = 0
        self._folder = -1

    def acquire(self, limit_s: float, waiting: Callable[[float], None] | None = None) -> None:
        """Wait for the turn; `waiting` is told now and then for how many seconds already.

        Raises:
            LockFault: the directory cannot be used.
            StillHeld: others hold it after `limit_s`; the place in the line is given up.
        """
        began = time.monotonic()
        try:
            self._folder = _open_folder(self._path)
            ahead = self._draw()
            while self._held_of(ahead) >= self._places:
                waited = time.monotonic() - began
                if waited > limit_s:
                    raise StillHeld
                if waiting is not None:
                    waiting(waited)
                time.sleep(POLL_S)
        except OSError as error:
            self.release()
            raise LockFault(error.strerror or str(error)) from error
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Leave the line, from wherever in it; doing so twice is fine."""
        if self._ticket >= 0:
            with contextlib.suppress(OSError):
                os.unlink(self._file(self._number), dir_fd=self._folder)
            os.close(self._ticket)
        if self._folder >= 0:
            os.close(self._folder)
        self._ticket = self._folder = -1

    def _draw(self) -> list[int]:
        """Take the next number; returns the lower ones that are held, the highest first."""
        with self._door() as door:
            known = self._numbers()
            self._number = 1 + max([_number_in(door), *known])
            os.pwrite(door, b"%016d" % self._number, 0)
            flags = _FLAGS | os.O_CREAT | os.O_EXCL | os.O_RDWR
            self._ticket = os.open(self._file(self._number), flags, 0o644, dir_fd=self._folder)
            os.fchmod(self._ticket, 0o644)  # others must be able to see whether it is held, whatever the umask
            fcntl.flock(self._ticket, fcntl.LOCK_EX | fcntl.LOCK_NB)
            ahead = [number for number in sorted(known, reverse=True) if self._is_held(number)]
            for number in known - set(ahead):
                with contextlib.suppress(OSError):
                    os.unlink(self._file(number), dir_fd=self._folder)
        return ahead

    def _held_of(self, ahead: list[int]) -> int:
        """How many of those ahead still stand there; counts no further than matters, and forgets who left."""
        held = 0
        for number in list(ahead):
            if self._is_held(number):
                held += 1
                if held == self._places:
                    break
            else:
                ahead.remove(number)
        return held

    def _is_held(self, number: int) -> bool:
        try:
            ticket = os.open(self._file(number), _FLAGS | os.O_RDONLY, dir_fd=self._folder)
        except OSError:  # gone, or nothing that this class made
            return False
        try:
            fcntl.flock(ticket, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(ticket)
        return False

    @contextlib.contextmanager
    def _door(self) -> Iterator[int]:
        """Hold what makes drawing one step."""
        door = self._open_door()
        try:
            if not locked(door, time.monotonic() + DOOR_LIMIT_S, POLL_S / 4):
                raise OSError(errno.EBUSY, "another process keeps its door shut")
            yield door
        finally:
            os.close(door)

    def _open_door(self) -> int:
        name = f"{self._resource}.door"
        while True:
            # Some kernels refuse O_CREAT on another user's file in a folder that all may write to.
            with contextlib.suppress(FileNotFoundError):
                return os.open(name, _FLAGS | os.O_RDWR, dir_fd=self._folder)
            with contextlib.suppress(FileExistsError):
                made = os.open(name, _FLAGS | os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=self._folder)
                os.fchmod(made, 0o666)
                return made

    def _numbers(self) -> set[int]:
        head = f"{self._resource}."
        tails = (name[len(head) :] for name in os.listdir(self._folder) if name.startswith(head))
        return {int(tail) for tail in tails if re.fullmatch(r"[0-9]{16}", tail)}

    def _file(self, number: int) -> str:
        return f"{self._resource}.{number:016d}"


def _open_folder(path: Path) -> int:
    """Open the directory, which must be this user's, root's, or one where nobody removes another's files."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    about = os.fstat(folder)
    if about.st_uid not in (0, os.geteuid()) and not about.st_mode & stat.S_ISVTX:
        os.close(folder)
        raise OSError(errno.EPERM, "it belongs to another user and is not sticky")
    return folder


def _number_in(door: int) -> int:
    text = os.pread(door, 16, 0)
    return int(text) if text.isdigit() else 0
