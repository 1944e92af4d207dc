"""What decides the code that torch.compile makes of an operator here, as one digest. Standard library only.

What is kept under it is still looked up by Inductor's own keys: this one keeps apart what must never meet.
"""

import contextlib
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
class Keys:
    """Digests of what is judged here."""

    operator: str
    """The session's operator under its rules on this device."""
    device: str
    """The device, whatever the operator."""


def keys_of(session: Session) -> Keys | None:
    """The keys of a session; None where the driver does not name the GPU."""
    device = _device(session.target)
    if not device:
        return None
    facts = {
        "layout": _LAYOUT,
        "target": session.target,
        "device": device,
        "cores": len(os.sched_getaffinity(0)),
        "torch": _version("torch"),
    }
    return Keys(_digest(facts | _code_facts(session)), _digest(facts))


def _code_facts(session: Session) -> dict[str, Any]:
    files = {
        path.relative_to(session.operator_dir).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in session.operator_dir.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    return {
        "operator": files,
        "precision": session.effective_precision,
        "python": platform.python_version(),
        "triton": _version("triton"),
        "compiler": toolchain.host_compiler(),
    }


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


def cpu_name() -> str:
    """As the kernel gives it."""
    return _of_cpu("model name") or platform.machine()


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
