"""Workspaces that build in a moment, and what came of them."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from cuda_agent_judge.build import BuildResult

NUMBER = 'extern "C" int number() { return %s; }\n'


def workspace(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def number(result: BuildResult) -> int:
    """Call number() of a library, in a process of its own (a loaded library stays)."""
    assert result.ok, result.log
    code = f"import ctypes; print(ctypes.CDLL({str(result.extension)!r}).number())"
    # libtorch is a dependency of every library; python finds it only beside torch.
    environment = {**os.environ, "LD_LIBRARY_PATH": _torch_lib()}
    told = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return int(told.stdout)


def _torch_lib() -> str:
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "lib")


def compiled(result: BuildResult) -> int:
    assert result.ok, result.log
    return int(result.log.split(": ", 1)[1].split(" compiled")[0])
