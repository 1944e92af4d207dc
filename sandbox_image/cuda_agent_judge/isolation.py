"""A uid of its own for the process that runs a submission, where the judge is root and that uid can work at all."""

import ctypes
import os
import signal
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

UNPRIVILEGED = 65534
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4


def candidate_uid(needed: Iterable[Path]) -> int | None:
    """The uid for the candidate worker, None where it must share the judge's.

    A submission may import anything of the standard library and torch: where an unprivileged uid cannot read those (an
    interpreter under /root, say) or the files `needed`, isolation would refuse honest submissions.
    """
    if os.geteuid() != 0:
        return None
    modules = (module for name in ("os", "encodings", "torch") if (module := sys.modules.get(name)))
    paths = [Path(module.__file__) for module in modules if module.__file__] + list(needed)
    pid = os.fork()
    if pid == 0:
        readable = False
        try:
            drop_to(UNPRIVILEGED)
            readable = all(os.access(path, os.R_OK) for path in paths)
        finally:
            os._exit(0 if readable else 1)
    _, status = os.waitpid(pid, 0)
    return UNPRIVILEGED if status == 0 else None


def scratch_for(uid: int | None, folder: Path) -> Path:
    """Make the one directory that a submission may write to: its home, its temporary files and its caches."""
    scratch = folder / "scratch"
    scratch.mkdir(mode=0o700, exist_ok=True)
    if uid is not None:
        os.chown(scratch, uid, uid)
    return scratch


def move_into(scratch: Path) -> None:
    """Point this process's home, temporary files and compilers' caches into a directory of its own."""
    names = ("HOME", "TMPDIR", "XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR")
    os.environ.update(dict.fromkeys(names, str(scratch)))
    # What the parent found out about temporary directories holds no longer.
    tempfile.tempdir = None


def drop_to(uid: int) -> None:
    """Give up every privilege for good."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    # Changing the uid resets both: the parent's death must still end this process, and it may look at itself.
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
