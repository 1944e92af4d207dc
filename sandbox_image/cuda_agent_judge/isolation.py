"""A uid of its own for the process that runs a submission, where the judge is root and that uid can work at all."""

import ctypes
import errno
import os
import signal
import stat
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

UNPRIVILEGED = 65534
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_KEEPCAPS, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 1, 4, 8, 38, 47
_PR_SET_PTRACER = 0x59616D61
_RAISE = 2
_CAP_DAC_READ_SEARCH = 2
_CAPABILITY_VERSION = 0x20080522


@dataclass(frozen=True)
class Identity:
    """Who the candidate worker becomes."""

    uid: int
    reads_all: bool = False
    """It keeps root's right to read files (and no other): the interpreter may lie where only root can look."""


def candidate_identity(needed: Iterable[Path]) -> Identity | None:
    """A uid of its own for the candidate worker, None where it must share the judge's.

    A submission may import anything of the standard library and torch: where an unprivileged uid cannot read those (an
    interpreter under /root, say) or the files `needed`, isolation would refuse honest submissions.
    """
    if os.geteuid() != 0:
        return None
    paths = list(needed)
    choices = (Identity(UNPRIVILEGED), Identity(UNPRIVILEGED, reads_all=True))
    return next((identity for identity in choices if _can_read(identity, paths)), None)


def _can_read(identity: Identity, needed: list[Path]) -> bool:
    modules = (module for name in ("os", "encodings", "torch") if (module := sys.modules.get(name)))
    paths = [Path(module.__file__) for module in modules if module.__file__] + needed
    pid = os.fork()
    if pid == 0:
        readable = False
        try:
            drop_to(identity)
            readable = all(os.access(path, os.R_OK, effective_ids=True) for path in paths)
        finally:
            os._exit(0 if readable else 1)
    _, status = os.waitpid(pid, 0)
    return status == 0


def scratch_for(identity: Identity | None, folder: Path) -> Path:
    """Make the one directory that a submission may write to: its home, its temporary files and its caches."""
    scratch = folder / "scratch"
    scratch.mkdir(mode=0o700, exist_ok=True)
    if identity is not None:
        os.chown(scratch, identity.uid, identity.uid)
    return scratch


def lend(folder: Path, identity: Identity | None) -> None:
    """Let the other uid write into a folder of this one's."""
    if identity is not None:
        os.chown(folder, identity.uid, identity.uid)


def take_back(path: Path) -> None:
    """Make a file that the other uid has written this process's own.

    Raises:
        OSError: it is no plain file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileNotFoundError(errno.ENOENT, "no plain file", str(path))
        os.fchown(descriptor, os.geteuid(), os.getegid())
        os.fchmod(descriptor, 0o755)
    finally:
        os.close(descriptor)


def move_into(scratch: Path) -> None:
    """Point this process's home, temporary files and compilers' caches into a directory of its own."""
    names = ("HOME", "TMPDIR", "XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR")
    os.environ.update(dict.fromkeys(names, str(scratch)))
    # What the parent found out about temporary directories holds no longer.
    tempfile.tempdir = None


def drop_to(identity: Identity) -> None:
    """Give up every privilege for good, but for reading where that is asked for."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_KEEPCAPS, int(identity.reads_all), 0, 0, 0)
    uid = identity.uid
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    if identity.reads_all:
        _keep_only_reading(libc)
    # Changing the uid resets both: the parent's death must still end this process, and it may look at itself.
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)


def gain_nothing() -> None:
    """See that no program this process starts has more rights than it has itself."""
    ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def be_seen() -> None:
    """Let the reference worker read this process's memory also where a kernel keeps that to a process's parents."""
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(-1), 0, 0, 0)


def _keep_only_reading(libc: ctypes.CDLL) -> None:
    """Give up all capabilities but one, which programs that are started keep as well (compilers need the headers)."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    bit = 1 << _CAP_DAC_READ_SEARCH
    # Effective, permitted and inheritable; the second half is of capabilities above 31.
    sets = (ctypes.c_uint32 * 6)(bit, bit, bit, 0, 0, 0)
    if libc.capset(header, sets) != 0:
        raise PermissionError("the right to read cannot be kept")
    libc.prctl(_PR_CAP_AMBIENT, _RAISE, _CAP_DAC_READ_SEARCH, 0, 0)
