"""Reads files of a workspace for a reader that may have more rights than the workspace's owner.

The model owns the workspace and may change it while it is read. Where the judge is root and the owner is not, files are
read with the owner's rights: the kernel then refuses whatever the owner could not read himself, be it behind a hard
link, behind a folder that was just swapped, or by a way not thought of here. Only the effective uid is the owner's;
the real one stays root's, so that the owner can neither signal nor trace the reader. A forked reader that has dropped
to the owner's uid for good could be killed, stopped and traced by the model.

Beside that no symbolic link is followed at any level, nothing but plain files is opened for reading, and how much is
read is limited in bytes, files and depth.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from cuda_agent_judge.processes import JudgeFault

MAX_ENTRIES = 5000
"""Of kernels/, all folders together: reading names takes memory too."""
MAX_DEPTH = 16
_NOBODY = 65534
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""O_NONBLOCK: a fifo without a writer, or a file under a lease, would hold the open."""
_FOLDER = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC


class SourceFault(Exception):
    """The submission's files cannot be taken; the text is one sentence."""


@contextlib.contextmanager
def opened(workspace: Path) -> Iterator[int]:
    """A descriptor of the workspace; within the block this process has its owner's rights to files and no more.

    Raises:
        SourceFault: it cannot be opened.
        JudgeFault: it cannot be read as its owner.
    """
    try:
        about = os.stat(workspace, follow_symlinks=False)
    except OSError as error:
        raise SourceFault(f"the workspace cannot be read: {error.strerror}") from error
    with _rights_of(about):
        try:
            top = os.open(workspace, _FOLDER)
        except OSError as error:
            raise SourceFault(f"the workspace cannot be read: {error.strerror}") from error
        try:
            if os.fstat(top).st_uid != about.st_uid:
                raise SourceFault("the workspace was replaced while it was read")
            yield top
        finally:
            os.close(top)


@contextlib.contextmanager
def _rights_of(owner: os.stat_result) -> Iterator[None]:
    if os.geteuid() != 0 or owner.st_uid == 0:
        yield
        return
    groups, group = os.getgroups(), os.getegid()
    try:
        os.setgroups([])
        os.setegid(owner.st_gid or _NOBODY)
        os.seteuid(owner.st_uid)
    except OSError as error:
        raise JudgeFault(f"the workspace cannot be read with the rights of its owner: {error.strerror}") from error
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(groups)


def glance(top: int, name: str, limit: int) -> bytes | None:
    """The bytes of a small plain file, `name` being relative and POSIX; None for anything else."""
    folder = os.dup(top)
    try:
        *parents, last = name.split("/")
        for parent in parents:
            below = os.open(parent, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = below
        return read(folder, last, name, limit)
    except (OSError, SourceFault):
        return None
    finally:
        os.close(folder)


def read(folder: int, name: str, shown: str, limit: int) -> bytes:
    """The bytes of a plain file.

    Raises:
        SourceFault: it is no plain file, cannot be read or holds more than `limit` bytes.
    """
    _check_kind(os.stat(name, dir_fd=folder, follow_symlinks=False), shown)
    descriptor = os.open(name, _FILE, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as stream:
        about = os.fstat(descriptor)
        _check_kind(about, shown)
        content = stream.read(limit + 1) if about.st_size <= limit else b""
    if max(about.st_size, len(content)) > limit:
        raise TooLarge(shown)
    return content


class TooLarge(SourceFault):
    """A file is larger than the limit."""


def _check_kind(about: os.stat_result, shown: str) -> None:
    if stat.S_ISLNK(about.st_mode):
        raise SourceFault(f"{shown} is a symbolic link: put the file itself there")
    if not stat.S_ISREG(about.st_mode):
        raise SourceFault(f"{shown} is no plain file: remove it")


class Tree:
    """All files below a folder, hidden ones left out, within a number of bytes."""

    def __init__(self, limit: int) -> None:
        self.files: dict[str, bytes] = {}
        """By path relative to the top."""
        self._limit = limit
        self._left = limit
        self._entries = 0

    def add(self, folder: int, name: str, shown: str) -> None:
        """Read one file.

        Raises:
            SourceFault: as `read`; also when all files together are too large.
        """
        try:
            content = read(folder, name, shown, self._left)
        except TooLarge:
            raise SourceFault(
                f"the submission holds more than {self._limit >> 20} MiB: keep sources only, no data or objects"
            ) from None
        except OSError as error:
            raise SourceFault(f"{shown} cannot be read: {error.strerror}") from error
        self._left -= len(content)
        self.files[shown] = content

    def add_folder(self, above: int, name: str, shown: str, depth: int = 0) -> None:
        """Read all files of a folder and of those in it.

        Raises:
            SourceFault: as `add`; also for too many files or folders, and for names nobody can read.
        """
        if depth > MAX_DEPTH:
            raise SourceFault(f"{shown} lies too deep: use at most {MAX_DEPTH} folders in one another")
        try:
            descriptor = os.open(name, _FOLDER, dir_fd=above)
        except OSError as error:
            raise SourceFault(f"{shown} cannot be read: {error.strerror}") from error
        try:
            for entry in self._names(descriptor, shown):
                self._add_entry(descriptor, entry, f"{shown}/{entry}", depth)
        finally:
            os.close(descriptor)

    def _add_entry(self, folder: int, name: str, shown: str, depth: int) -> None:
        try:
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        except OSError as error:
            raise SourceFault(f"{shown} cannot be read: {error.strerror}") from error
        if not stat.S_ISDIR(mode):
            self.add(folder, name, shown)
        elif name != "__pycache__":
            self.add_folder(folder, name, shown, depth + 1)

    def _names(self, descriptor: int, shown: str) -> list[str]:
        names = []
        with os.scandir(descriptor) as entries:
            for entry in entries:
                self._entries += 1
                if self._entries > MAX_ENTRIES:
                    raise SourceFault(f"{shown} holds more than {MAX_ENTRIES} files: keep sources only")
                if entry.name.startswith("."):
                    continue
                if not entry.name.isprintable():  # it would end up in messages, on a terminal and in build commands
                    raise SourceFault(f"the file name {entry.name!a} in {shown} cannot be printed: rename it")
                names.append(entry.name)
        return sorted(names)
