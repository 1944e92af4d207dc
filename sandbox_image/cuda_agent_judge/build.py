"""Builds a submission's kernels into one shared library (placeholder: the `cpu` target and the stable style)."""

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch


@dataclass(frozen=True)
class BuildResult:
    """How a build ended."""

    ok: bool
    library: Path | None
    style: Literal["stable", "pybind"]
    seconds: float
    log: str


def build(workspace: Path, out_dir: Path, *, target: str, clean: bool, timeout_s: float) -> BuildResult:
    """Compile every source under kernels/ with one compiler call."""
    sources = sorted((workspace / "kernels").glob("*.cpp"))
    started = time.monotonic()
    if not sources:
        return BuildResult(True, None, "stable", 0.0, "")
    out_dir.mkdir(parents=True, exist_ok=True)
    library = out_dir / "cuda_extension.so"
    home = Path(torch.__file__).parent
    command = ["g++", "-O3", "-march=native", "-fopenmp", "-std=c++20", "-shared", "-fPIC", f"-I{home / 'include'}"]
    command += [str(s) for s in sources]
    command += [f"-L{home / 'lib'}", "-ltorch", "-ltorch_cpu", "-lc10", "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    return BuildResult(done.returncode == 0, library, "stable", time.monotonic() - started, done.stderr)
