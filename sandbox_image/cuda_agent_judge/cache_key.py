"""What decides the code that torch.compile makes of an operator here, as one digest. Standard library only.

What is kept under it is still looked up by Inductor's own keys: this one keeps apart what must never meet.
"""

import contextlib
import dataclasses
import hashlib
import importlib.metadata
import json
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuda_agent_judge import toolchain
from cuda_agent_judge.gpu import visible_gpu
from cuda_agent_judge.nvml import Device
from cuda_agent_judge.session import Session

_LAYOUT = 1
"""Of a kept folder."""


@dataclass(frozen=True)
class Surroundings:
    """What code is compiled for, and with."""

    device: str
    """A GPU's model, or a processor's with its instructions; "" where the driver does not say."""
    cores: int
    torch: str
    triton: str
    python: str
    compiler: str

    @classmethod
    def of(cls, target: toolchain.Target) -> "Surroundings":
        """Of this process."""
        return cls(
            _device(target),
            len(os.sched_getaffinity(0)),
            _version("torch"),
            _version("triton"),
            platform.python_version(),
            toolchain.host_compiler(),
        )


@dataclass(frozen=True)
class Keys:
    """Digests of what is judged here."""

    operator: str
    """The session's operator under its rules in these surroundings."""
    device: str
    """The device under this torch, whatever the operator."""


def keys_of(session: Session, around: Surroundings) -> Keys:
    """The keys of a session."""
    device = {"layout": _LAYOUT, "device": around.device, "cores": around.cores, "torch": around.torch}
    operator = {
        "files": _files(session.operator_dir),
        "target": session.target,
        "precision": session.effective_precision,
        **dataclasses.asdict(around),
    }
    return Keys(_digest(device | operator), _digest(device))


def cpu_name() -> str:
    """As the kernel gives it."""
    return _of_cpu("model name") or platform.machine()


def _files(folder: Path) -> dict[str, str]:
    found = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def _digest(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _device(target: toolchain.Target) -> str:
    if target == "cpu":
        # Two virtual machines may call their processors the same and show different instructions of them.
        return f"{cpu_name()}; {_of_cpu('flags') or _of_cpu('Features')}"
    device = Device.find(visible_gpu(os.environ))
    if device is None:
        return ""
    with contextlib.closing(device):
        return device.name()


def _of_cpu(what: str) -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.partition(":")[0].strip() == what:
                return line.partition(":")[2].strip()
    return ""


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
