"""Sessions with a machine's cache, and caches with something in them."""

import json
import os
from pathlib import Path

from judging import SCALE

from cuda_agent_judge.cache_key import Keys
from cuda_agent_judge.machine_cache import MachineCache

ROOT = os.geteuid() == 0


def session_in(folder: Path, cache: Path, operator: str = SCALE, **settings: object) -> Path:
    (folder / "operator").mkdir(parents=True)
    (folder / "operator" / "model.py").write_text(operator)
    (folder / "session.json").write_text(json.dumps({"cache": str(cache), "libraries": "any", **settings}))
    return folder


def filled(folder: Path, text: str = "code") -> Path:
    """A folder as Inductor leaves it."""
    (folder / "ab").mkdir(parents=True)
    (folder / "ab" / "kernel.so").write_text(text)
    return folder


def kept(path: Path, name: str = "operator", *, writable: bool = True, limit_bytes: int = 1 << 20) -> MachineCache:
    path.mkdir(mode=0o700, exist_ok=True)
    return MachineCache(path, Keys(name, "device"), writable, limit_bytes)
