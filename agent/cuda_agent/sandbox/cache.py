"""Where this machine's judges keep compiled baselines from run to run (docs/judge.md).

What lies there runs in the judge, so it is only ever shown to a sandbox in which nobody else can write to it.
"""

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "CUDA_AGENT_CACHE"
NONE = "none"
"""The variable's value where nothing is to be kept."""
NAME = "cuda-agent"
VOLUME = "cuda-agent-cache"
"""Of Docker, in place of a directory: only root in a container gets to where it is mounted."""


@dataclass(frozen=True)
class Cache:
    """Where the cache is."""

    path: str
    """"" where there is none."""
    note: str = ""
    """What a person should know; "" when all is well."""


def find_cache(environ: Mapping[str, str]) -> Cache:
    """Return the directory, made where it is missing: this user's alone, at every level down to it."""
    named = environ.get(VARIABLE, "")
    if named == NONE:
        return Cache("")
    home = environ.get("HOME", "")
    place = named or os.path.join(environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache"), NAME)
    if not os.path.isabs(place):
        return Cache("", f"baselines are not kept: {place!r} is no absolute path; set ${VARIABLE}" if named else "")
    # Links of the user's own (a home on another disk) are followed once, here.
    path = Path(os.path.realpath(place))
    if fault := _fault(path):
        return Cache("", f"baselines are not kept: {fault}; mend that or set ${VARIABLE}")
    return Cache(str(path))


def volume(environ: Mapping[str, str]) -> str:
    """Return the name of the volume for containers, "" where nothing is to be kept."""
    return "" if environ.get(VARIABLE) == NONE else VOLUME


def _fault(path: Path) -> str:
    """Return why others might have written there, "" where they cannot."""
    missing = [level for level in (path, *path.parents) if not os.path.exists(level)]
    with suppress(OSError):
        for level in reversed(missing):
            level.mkdir(mode=0o700)  # parents=True makes those above by the umask, which may let a group write
    for level in (*reversed(path.parents), path):
        try:
            about = os.lstat(level)
        except OSError as error:
            return f"{str(path)!r} cannot be made ({error.strerror})"
        if not stat.S_ISDIR(about.st_mode):
            return f"{str(level)!r} is no directory"
        if about.st_uid != os.geteuid() and (level == path or about.st_uid != 0):
            return f"{str(level)!r} is another user's"
        if about.st_mode & 0o022 and not about.st_mode & stat.S_ISVTX:
            return f"others may write to {str(level)!r}"
    if (mode := stat.S_IMODE(os.lstat(path).st_mode)) & 0o077:
        return f"others may look into {str(path)!r} (mode {mode:o}, and it must be 700)"
    return "" if os.access(path, os.R_OK | os.W_OK | os.X_OK) else f"{str(path)!r} may not be written to"
