"""The environment of the `local` sandbox, built from nothing: no key, no path of the host's packages gets in."""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
CUDA_HOME = Path("/usr/local/cuda")
TOOLCHAIN = ("nvcc", "c++", "g++", "clang++", "ninja", "ncu", "nsys")
"""What is also looked for on the host's own PATH, where it is not in the usual places (modules, conda)."""
PASSED_ON = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "TZ")
QUIET = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "DEBIAN_FRONTEND": "noninteractive",
}
"""Programs that would ask or page are told that nobody is there."""


SUDO = """#!/bin/sh
# There is nobody else to be in here: run the command as it is.
while [ $# -gt 0 ]; do
  case $1 in
    -[ugpChDRTU]) shift 2 ;;
    --) shift; break ;;
    -*) shift ;;
    *) break ;;
  esac
done
exec env "$@"
"""


def sandbox_environment(
    python: Path, state_dir: Path, *, host: Mapping[str, str], extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the whole environment of a command; `host` is read for the few names that are passed on."""
    cuda = _cuda_home(host)
    first = [str(state_dir / "bin"), str(python.parent)]
    path = [*first, *([f"{cuda}/bin"] if cuda else []), *(part for part in SYSTEM_PATH if os.path.isdir(part))]
    env = {
        "PATH": os.pathsep.join(dict.fromkeys([*path, *_toolchain(host, path)])),
        "HOME": str(state_dir / "home"),
        "TMPDIR": str(state_dir / "tmp"),
        "USER": "sandbox",
        "LOGNAME": "sandbox",
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        **QUIET,
        **({"CUDA_HOME": str(cuda)} if cuda else {}),
        **{name: host[name] for name in PASSED_ON if name in host},
    }
    if libraries := _cuda_libraries(host):
        env["LD_LIBRARY_PATH"] = libraries
    return {**env, **(extra or {})}


def prepare_state_dir(python: Path, state_dir: Path) -> None:
    """Make the directories that the environment names, a `sudo`, and a `python3` where there is none."""
    for name in ("home", "tmp", "bin"):
        (state_dir / name).mkdir(parents=True, exist_ok=True)
    _program(state_dir / "bin" / "sudo", SUDO)
    for name in ("python3", "python"):
        beside = python.parent / name
        if not (beside.exists() and os.path.samefile(beside, python)):
            # A link would hide a virtual environment's pyvenv.cfg from the interpreter.
            _program(state_dir / "bin" / name, f'#!/bin/sh\nexec {shlex.quote(str(python))} "$@"\n')


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _cuda_home(host: Mapping[str, str]) -> Path | None:
    named = [Path(host[name]) for name in ("CUDA_HOME", "CUDA_PATH") if host.get(name)]
    return next((home for home in [*named, CUDA_HOME] if (home / "bin").is_dir()), None)


def _toolchain(host: Mapping[str, str], path: list[str]) -> list[str]:
    """Folders of the host's PATH that hold a tool found nowhere in `path`; never the host program's own bin."""
    own = os.path.dirname(os.path.abspath(sys.executable))
    theirs = os.pathsep.join(p for p in host.get("PATH", "").split(os.pathsep) if os.path.isabs(p) and p != own)
    missing = [tool for tool in TOOLCHAIN if shutil.which(tool, path=os.pathsep.join(path)) is None]
    return [os.path.dirname(found) for tool in missing if (found := shutil.which(tool, path=theirs))]


def _cuda_libraries(host: Mapping[str, str]) -> str:
    """Keep what belongs to CUDA of LD_LIBRARY_PATH: some machines have the driver's libraries only there."""
    entries = host.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    return os.pathsep.join(e for e in entries if os.path.isdir(e) and ("cuda" in e.lower() or "nvidia" in e.lower()))
