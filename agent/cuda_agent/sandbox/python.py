"""Find the Python that runs inside the `local` sandbox: at least 3.11, with torch, not the host's own packages."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuda_agent.errors import ConfigError

MINIMUM_PYTHON = (3, 11)
MINIMUM_TORCH = (2, 10)
PROBE_TIMEOUT_S = 120.0
"""A first import of torch from a cold disk takes long."""
FOLDER = ".venv-sandbox"
WHAT_TO_DO = "run `make install`, or name one with --python or $CUDA_AGENT_PYTHON"

PROBE = """
import json, sys
found = {"python": list(sys.version_info[:3]), "torch": None, "cuda": False, "device": ""}
try:
    import torch
    found["torch"] = torch.__version__
    found["cuda"] = torch.cuda.is_available()
    found["device"] = torch.cuda.get_device_name(0) if found["cuda"] else ""
except Exception as error:  # a broken installation raises anything
    found["error"] = (str(error).splitlines() or [type(error).__name__])[0]
print(json.dumps(found))
"""


@dataclass(frozen=True)
class SandboxPython:
    """An interpreter that fits."""

    path: Path
    version: str
    torch: str
    cuda: bool
    """Whether this torch sees a GPU."""
    device: str = ""
    """The GPU's name."""


def find_python(
    named: Path | None = None, *, host: Mapping[str, str] | None = None, beside: tuple[Path, ...] | None = None
) -> SandboxPython:
    """Return the first that is there of: `named`, $CUDA_AGENT_PYTHON, the running one if it has torch, `.venv-sandbox`.

    `.venv-sandbox` is looked for in the folders `beside` (the current one and the checkout's).

    Raises:
        ConfigError: none is there, or the one that was asked for does not fit.
    """
    host = os.environ if host is None else host
    if named is not None:
        return check_python(named, called="--python", host=host)
    if host.get("CUDA_AGENT_PYTHON"):
        return check_python(Path(host["CUDA_AGENT_PYTHON"]), called="$CUDA_AGENT_PYTHON", host=host)
    refused = ""
    for path, called in _candidates(beside):
        try:
            return check_python(path, called=called, host=host)
        except ConfigError as error:
            refused = refused or str(error)
    raise ConfigError(refused or f"the sandbox needs a Python with torch and there is none: {WHAT_TO_DO}")


def check_python(path: Path, *, called: str, host: Mapping[str, str]) -> SandboxPython:
    """Run the interpreter and see whether it fits; `called` says in the message where it was named.

    Raises:
        ConfigError: it does not run, is too old, or has no usable torch.
    """
    found = _probe(_executable(path, called), called, host)
    version = ".".join(map(str, found["python"]))
    if tuple(found["python"]) < MINIMUM_PYTHON:
        raise ConfigError(f"{called} is Python {version} and the sandbox needs 3.11 or newer: {WHAT_TO_DO}")
    if found["torch"] is None:
        raise ConfigError(f"{called} ({path}) cannot import torch ({found['error']}): {WHAT_TO_DO}")
    if _numbers(found["torch"]) < MINIMUM_TORCH:
        raise ConfigError(f"{called} ({path}) has torch {found['torch']} and 2.10 or newer is needed: {WHAT_TO_DO}")
    return SandboxPython(_executable(path, called), version, found["torch"], found["cuda"], found["device"])


def _candidates(beside: tuple[Path, ...] | None) -> Iterator[tuple[Path, str]]:
    # Looking is enough here: importing torch into the host only to see whether it is there would take seconds.
    if importlib.util.find_spec("torch") is not None:
        yield Path(sys.executable), "the running Python"
    if beside is None:
        beside = (Path.cwd(), Path(__file__).parents[3])
    for folder in dict.fromkeys(beside):
        python = folder / FOLDER / "bin" / "python3"
        if os.path.exists(python):
            yield python, str(folder / FOLDER)


def _executable(path: Path, called: str) -> Path:
    """Return an absolute path; links are kept, for a virtual environment is known by them."""
    found = shutil.which(path) if os.sep not in str(path) else str(path)
    if found is None or not os.path.isfile(found) or not os.access(found, os.X_OK):
        raise ConfigError(f"{called} names {str(path)!r}, which is no program: {WHAT_TO_DO}")
    return Path(os.path.abspath(found))


def _probe(path: Path, called: str, host: Mapping[str, str]) -> dict[str, Any]:
    environment = {k: v for k, v in host.items() if k in ("PATH", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "HOME")}
    try:
        done = subprocess.run(
            [path, "-I", "-c", PROBE],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=PROBE_TIMEOUT_S,
            env=environment,
            check=False,
        )
        found = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired as error:
        raise ConfigError(
            f"{called} ({path}) took over {PROBE_TIMEOUT_S:.0f} s to import torch: {WHAT_TO_DO}"
        ) from error
    except (OSError, ValueError, IndexError) as error:
        raise ConfigError(f"{called} ({path}) does not run as a Python: {WHAT_TO_DO}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{called} ({path}) does not run as a Python: {WHAT_TO_DO}")
    return found


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("+")[0].split(".")[:2] if part.isdigit())
