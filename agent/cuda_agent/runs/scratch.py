"""A directory for what lives as long as a run: the judge's session, the sandbox's home and temporary files.

Its owner holds a lock on it, which ends with the owner however that ends: what nobody holds is removed at the next
start.
"""

import fcntl
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "cuda-agent-scratch-"
NEW_S = 10.0
"""A directory younger than this may be about to be locked."""
_OURS = re.compile(re.escape(PREFIX) + r"[a-z0-9_]{8}")


@contextmanager
def scratch(root: Path | None = None) -> Iterator[Path]:
    """Make it and remove it at the end; its plain name keeps odd characters of the run's path out of build commands."""
    base = root or Path(tempfile.gettempdir())
    remove_orphans(base)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _taken(lock)
        folder.chmod(0o711)  # the judge may run a submission under another uid, which must reach its files
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def remove_orphans(base: Path, *, older_than_s: float = NEW_S) -> int:
    """Remove what dead runs of this user left in `base`, and return how many there were."""
    count = 0
    with suppress(OSError), os.scandir(base) as found:
        for one in found:
            if _OURS.fullmatch(one.name) and _is_orphan(one.path, older_than_s):
                shutil.rmtree(one.path, ignore_errors=True)
                count += 1
    return count


def _is_orphan(path: str, older_than_s: float) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        about = os.fstat(descriptor)
        young = time.time() - about.st_ctime < older_than_s
        return stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid() and not young and _taken(descriptor)
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    """Take the lock if nobody has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # somebody has it, or this file system has no locks
        return False
    return True
