"""Folders and files that nobody but this user can have written: checked level by level, and copied no other way.

Standard library only.
"""

import contextlib
import errno
import os
import shutil
import stat
from pathlib import Path


class Untrusted(Exception):
    """Somebody else could have written there; the message says where."""


def check_levels(path: Path) -> None:
    """See that nobody but this user can have written there; the folder is made where it is missing.

    Raises:
        Untrusted: somebody could, at one of the levels down to it.
    """
    with contextlib.suppress(OSError):
        os.mkdir(path, 0o700)
    for level in (*reversed(path.parents), path):
        try:
            about = os.lstat(level)
            if not stat.S_ISDIR(about.st_mode):
                raise Untrusted(f"{str(level)!r} is no directory")
            if level != path and is_read_only(level):
                continue
        except OSError as error:
            raise Untrusted(f"{str(level)!r} cannot be read ({error.strerror})") from error
        if about.st_uid != os.geteuid() and (level == path or about.st_uid != 0):
            raise Untrusted(f"{str(level)!r} is another user's")
        mode = stat.S_IMODE(about.st_mode)
        if level == path and mode & 0o077:
            raise Untrusted(f"{str(level)!r} is open to others (mode {mode:o}, and it must be 700)")
        if mode & 0o022 and not mode & stat.S_ISVTX:
            raise Untrusted(f"others may write to {str(level)!r}")


def is_read_only(path: Path) -> bool:
    """Whether it lies on what is mounted read-only here."""
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def check_file(path: Path) -> None:
    """See that it is a plain file that only this user may write.

    Raises:
        Untrusted: it is something else.
    """
    about = os.lstat(path)
    if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o022:
        raise Untrusted(f"{str(path)!r} is not a plain file of this user alone")


def check_folder(path: Path) -> None:
    """See that it is a folder that only this user may write to.

    Raises:
        Untrusted: it is something else.
    """
    about = os.lstat(path)
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o022:
        raise Untrusted(f"{str(path)!r} is not a folder of this user alone")


def copy_tree(source: Path, into: Path, limit_bytes: int) -> None:
    """Copy a tree of plain files that are this user's and nobody else's to write.

    Raises:
        Untrusted: there is something else in it.
        OSError: it is larger than `limit_bytes`, or could not be read or written.
    """
    total = 0
    check_folder(source)
    into.mkdir(mode=0o700)
    for folder, folders, files in os.walk(source, onerror=_fail):
        here = into / os.path.relpath(folder, source)
        for name in folders:
            check_folder(Path(folder, name))
            (here / name).mkdir(mode=0o700)
        for name in files:
            check_file(Path(folder, name))
            total += os.lstat(os.path.join(folder, name)).st_size
            if total > limit_bytes:
                raise OSError(errno.EFBIG, f"it takes more than {limit_bytes >> 20} MiB")
            shutil.copy2(os.path.join(folder, name), here / name, follow_symlinks=False)


def _fail(error: OSError) -> None:
    raise error


def size_of(folder: Path) -> int:
    """Bytes of all files below it."""
    return sum(os.lstat(os.path.join(place, name)).st_size for place, _, names in os.walk(folder) for name in names)
