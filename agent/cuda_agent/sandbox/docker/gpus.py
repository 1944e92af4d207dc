"""The GPUs of this machine that a container may be handed, by UUID: numbers change inside a container."""

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

QUERY = ("--query-gpu=index,uuid,name,driver_version", "--format=csv,noheader")
QUERY_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Gpu:
    """One GPU as nvidia-smi lists it."""

    index: str
    uuid: str
    name: str
    driver: str


def listed(program: str | None = None) -> list[Gpu]:
    """Return what nvidia-smi lists, nothing where it is missing or fails."""
    found = program or shutil.which("nvidia-smi")
    if found is None:
        return []
    try:
        done = subprocess.run(
            [found, *QUERY], capture_output=True, text=True, timeout=QUERY_TIMEOUT_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    rows = [[word.strip() for word in line.split(",")] for line in done.stdout.splitlines()]
    return [Gpu(*row) for row in rows if done.returncode == 0 and len(row) == 4]


def visible(gpus: list[Gpu], environ: Mapping[str, str]) -> list[str]:
    """Return the devices that $CUDA_VISIBLE_DEVICES leaves, all without it; MIG devices are known by their own names.

    As CUDA does, it stops at the first entry that names nothing.
    """
    named = environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return [gpu.uuid for gpu in gpus]
    found: list[str] = []
    for word in filter(None, map(str.strip, named.split(","))):
        match = [gpu.uuid for gpu in gpus if word == gpu.index or (word[:4] == "GPU-" and gpu.uuid.startswith(word))]
        if word.startswith("MIG-"):
            match = [word]
        if len(match) != 1:
            break
        found += match
    return found
