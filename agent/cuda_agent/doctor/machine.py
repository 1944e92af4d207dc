"""Checks of this machine: Python with torch, compilers, GPU and driver and how they fit, keys, disk."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from cuda_agent.config import KEY_VARIABLES
from cuda_agent.doctor.check import Check, absent, fine, problem
from cuda_agent.errors import ConfigError
from cuda_agent.sandbox.confinement import Found, find_confinement
from cuda_agent.sandbox.environment import sandbox_environment
from cuda_agent.sandbox.gpus import Gpu, listed
from cuda_agent.sandbox.python import SandboxPython, find_python
from cuda_agent.sandbox.target import choose_target

LEAST_FREE_BYTES = 2 << 30
INSTALL_DRIVER = "install NVIDIA's driver and see that `nvidia-smi` works"


def checks(environ: Mapping[str, str], folder: Path) -> list[Check]:
    """Check what a run in the sandbox `local` needs; runs would be kept below `folder`."""
    gpus = listed()
    found, python = _python(environ)
    return [
        *found,
        gpu(gpus, has_device=bool(list(Path("/dev").glob("nvidia[0-9]*")))),
        *toolkit(gpus, python, nvcc_version(environ), driver_cuda()),
        keys(environ),
        disk(folder),
    ]


def _python(environ: Mapping[str, str]) -> tuple[list[Check], SandboxPython | None]:
    try:
        python = find_python(host=environ)
    except ConfigError as error:
        return [problem("python", str(error), "run `make install`, or set $CUDA_AGENT_PYTHON")], None
    found = [fine("python", f"{python.path}: Python {python.version} with torch {python.torch}")]
    env = sandbox_environment(python.path, Path("state"), host=environ)
    try:
        target = choose_target(python, env=env)
        found.append(fine("target", f"{target.name}: {target.reason}"))
        found.append(local(find_confinement(python.path, env, gpu=target.name == "cuda")))
    except ConfigError as error:
        found.append(problem("compiler", str(error), "install g++ (Debian, Ubuntu: `sudo apt install g++`)"))
    return found, python


def local(found: Found) -> Check:
    """Say whether anything confines the commands of the sandbox `local`."""
    return (fine if found.confinement else absent)("local", found.why)


def gpu(gpus: list[Gpu], *, has_device: bool) -> Check:
    """Say which GPUs there are; `has_device` tells whether the kernel has a device file of one."""
    if gpus:
        return fine("gpu", "; ".join(f"{one.name} (driver {one.driver}, {one.uuid})" for one in gpus))
    if has_device:
        return problem("gpu", "there is a GPU, but nvidia-smi lists none", INSTALL_DRIVER)
    return absent("gpu", "nvidia-smi lists no GPU: kernels are written for the CPU")


def toolkit(gpus: list[Gpu], python: SandboxPython | None, nvcc: str, driver: str) -> list[Check]:
    """Say whether nvcc, torch and driver fit together; versions are like "13.0", "" for none."""
    torch = torch_cuda(python.torch) if python is not None else ""
    if not gpus:
        return [fine("nvcc", f"nvcc {nvcc}")] if nvcc else [absent("nvcc", "there is no nvcc")]
    found = [fine("nvcc", f"nvcc {nvcc}") if nvcc else problem("nvcc", "there is a GPU and no nvcc", _INSTALL_CUDA)]
    if not torch:
        return [*found, problem("torch", "there is a GPU, and torch is a build for the CPU", _INSTALL_TORCH)]
    if driver and _major(driver) < _major(torch):
        said = f"the driver can run CUDA {driver}, torch is built for {torch}"
        return [*found, problem("torch", said, f"update the driver, or install a torch for CUDA {_major(driver)}")]
    if nvcc and _major(nvcc) != _major(torch):
        said = f"nvcc is of CUDA {nvcc}, torch is built for {torch}: kernels would not load"
        return [*found, problem("torch", said, f"install CUDA {_major(torch)}, or a torch for CUDA {_major(nvcc)}")]
    if python is not None and not python.cuda:
        return [*found, problem("torch", f"torch for CUDA {torch} sees no GPU", "see $CUDA_VISIBLE_DEVICES")]
    return [*found, fine("torch", f"torch for CUDA {torch}, driver for {driver or 'an unknown CUDA'}")]


_INSTALL_CUDA = "install the CUDA toolkit and put its bin on PATH, or use --target cpu"
_INSTALL_TORCH = "run `make clean install`, or name a Python with a CUDA build with --python"


def torch_cuda(version: str) -> str:
    """Return the CUDA version that torch's own version names: "13.0" for 2.11.0+cu130."""
    match = re.search(r"\+cu(\d+)(\d)$", version)
    return f"{match[1]}.{match[2]}" if match else ""


def nvcc_version(environ: Mapping[str, str]) -> str:
    """Return nvcc's version, "" where there is none."""
    homes = [Path(environ[name], "bin") for name in ("CUDA_HOME", "CUDA_PATH") if environ.get(name)]
    path = os.pathsep.join([*map(str, homes), environ.get("PATH", ""), "/usr/local/cuda/bin"])
    return _said(shutil.which("nvcc", path=path), r"release ([0-9.]+)", "--version")


def driver_cuda() -> str:
    """Return the newest CUDA version that the driver can run."""
    return _said(shutil.which("nvidia-smi"), r"CUDA Version: *([0-9.]+)")


def _said(program: str | None, pattern: str, *arguments: str) -> str:
    if program is None:
        return ""
    try:
        done = subprocess.run(
            [program, *arguments], capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    match = re.search(pattern, done.stdout)
    return match[1] if match else ""


def keys(environ: Mapping[str, str]) -> Check:
    """Name the keys that are set; their values are nobody's business."""
    present = [name for name in KEY_VARIABLES if environ.get(name)]
    if present:
        return fine("keys", f"set: {', '.join(present)}")
    return absent("keys", "no provider's key is set: the model builtin needs none")


def disk(folder: Path) -> Check:
    """Say how much room there is for runs."""
    free = shutil.disk_usage(folder).free
    said = f"{free / 1e9:.1f} GB free in {folder}"
    if free < LEAST_FREE_BYTES:
        return problem("disk", said, "free some space, or name another --run-dir")
    return fine("disk", said)


def _major(version: str) -> int:
    return int(version.split(".")[0] or 0)
