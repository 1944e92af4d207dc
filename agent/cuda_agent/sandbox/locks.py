"""The directory of this machine's locks: one for all runs, whoever started them and wherever their judges are.

Judges hold locks in it while they time or compile (docs/judge.md). It is made here and shown to every sandbox.
"""

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cuda_agent.errors import ConfigError

VARIABLE = "CUDA_AGENT_LOCKS"
PLACES = (Path("/run/lock/cuda-agent"), Path("/tmp/cuda-agent-locks"))
ALONE = 0o700
"""Root's: a submission, which has another uid then, cannot get at the locks."""
SHARED = 0o1777
"""Of anybody else: all users of the machine keep out of each other's way, and nobody removes another's files."""


@dataclass(frozen=True)
class Locks:
    """Where the locks are."""

    path: str
    """"" where there is no usable place."""
    note: str = ""
    """What a person should know; "" when all is well."""


def find_locks(environ: Mapping[str, str], places: tuple[Path, ...] = PLACES) -> Locks:
    """Return the directory, made where it is missing.

    Raises:
        ConfigError: the one that $CUDA_AGENT_LOCKS names cannot be used.
    """
    if named := environ.get(VARIABLE):
        if fault := _fault(Path(named)):
            raise ConfigError(f"${VARIABLE} names {named!r}, which {fault}; name another directory or unset it.")
        return Locks(os.path.abspath(named))
    missed = ""
    for place in places:
        fault = _fault(place)
        if not fault:
            said = f"locks are kept in {place}: {missed}, so runs that use that one are not waited for"
            return Locks(str(place), said if missed else "")
        if place.parent.is_dir():
            missed = missed or f"{str(place)!r} {fault}"
    return Locks(
        "", f"nothing keeps other runs from timing at the same moment: {missed or 'there is no place for locks'}"
    )


def _fault(place: Path) -> str:
    """Make the directory where it is missing; return why it is of no use, "" when it is."""
    with suppress(OSError):
        os.mkdir(place, 0o700)
        os.chmod(place, ALONE if os.geteuid() == 0 else SHARED)
    try:
        about = os.lstat(place)
    except OSError as error:
        return f"cannot be made ({error.strerror})"
    if not stat.S_ISDIR(about.st_mode):
        return "is no directory"
    if about.st_uid not in (0, os.geteuid()) and not about.st_mode & stat.S_ISVTX:
        return "is another user's"
    return "" if os.access(place, os.R_OK | os.W_OK | os.X_OK) else "may not be written to"
