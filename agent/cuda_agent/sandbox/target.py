"""Choose what kernels are written for: `cuda` where torch sees a GPU and nvcc is there, else `cpu`."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from cuda_agent.errors import ConfigError
from cuda_agent.sandbox.python import SandboxPython

TargetName = Literal["cpu", "cuda"]
COMPILERS = ("c++", "g++", "clang++")
COMPILE_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Target:
    """The choice, and why in one line."""

    name: TargetName
    reason: str


def choose_target(
    python: SandboxPython, *, env: Mapping[str, str], asked: Literal["auto", "cpu", "cuda"] = "auto"
) -> Target:
    """Choose a target that is ready; `env` is the sandbox's environment, where the compilers are looked for.

    Raises:
        ConfigError: the target asked for is not ready, or there is no C++ compiler for either.
    """
    compiler = _working_compiler(env)
    missing = _missing_for_cuda(python, env)
    if asked == "cuda" and missing:
        raise ConfigError(f"the target cuda is not ready: {missing}; use --target cpu or install what is missing")
    if asked == "cuda" or (asked == "auto" and not missing):
        return Target("cuda", f"torch sees {python.device or 'a GPU'} and nvcc is there")
    why = "" if asked == "cpu" else f"{missing}; "
    return Target("cpu", f"{why}C++ is compiled by {compiler}")


def _missing_for_cuda(python: SandboxPython, env: Mapping[str, str]) -> str:
    if not python.cuda:
        return "torch sees no GPU"
    if shutil.which("nvcc", path=env.get("PATH", "")) is None:
        return "there is no nvcc"
    return ""


def _working_compiler(env: Mapping[str, str]) -> str:
    """Return the first compiler that gets through a small program with a standard header."""
    path = env.get("PATH", os.defpath)
    found = [compiler for name in COMPILERS if (compiler := shutil.which(name, path=path))]
    if not found:
        raise ConfigError(
            "kernels need a C++ compiler and there is none: install g++ (Debian, Ubuntu: apt install g++)"
        )
    for compiler in found:
        try:
            done = subprocess.run(
                [compiler, "-x", "c++", "-std=c++17", "-fsyntax-only", "-"],
                input=b"#include <vector>\nint main() { return 0; }\n",
                capture_output=True,
                timeout=COMPILE_TIMEOUT_S,
                env=dict(env),
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return compiler
    raise ConfigError(f"the C++ compiler {found[0]} cannot compile a small program: install g++ with its headers")
