"""The GPUs of this machine, by UUID: numbers change with $CUDA_VISIBLE_DEVICES and inside a container."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from cuda_agent.errors import ConfigError

QUERY = ("--query-gpu=index,uuid,name,driver_version", "--format=csv,noheader")
QUERY_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Gpu:
    """One GPU as nvidia-smi lists it."""

    index: str
    uuid: str
    name: str
    driver: str

    @property
    def described(self) -> str:
        """Name it for people."""
        return f"GPU {self.index}, {self.uuid}" if self.index else self.uuid


def listed(program: str | None = None) -> list[Gpu]:
    """Return what nvidia-smi lists, nothing where it is missing or fails."""
    found = program or shutil.which("nvidia-smi")
    if found is None:
        return []
    # Other processes of this user may read what it is started with: no keys.
    env = {name: value for name, value in os.environ.items() if name in ("PATH", "LD_LIBRARY_PATH", "HOME")}
    try:
        done = subprocess.run(
            [found, *QUERY],
            capture_output=True,
            text=True,
            timeout=QUERY_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            env=env,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    rows = [[word.strip() for word in line.split(",")] for line in done.stdout.splitlines()]
    return [Gpu(*row) for row in rows if done.returncode == 0 and len(row) == 4]


def visible(gpus: list[Gpu], environ: Mapping[str, str]) -> list[str]:
    """Return the devices that $CUDA_VISIBLE_DEVICES leaves, all without it; MIG devices are known by their own names.

    As CUDA does, it stops at the first entry that names nothing.
    Numbers are nvidia-smi's, as in `--gpu`. CUDA's own differ on machines of mixed models unless $CUDA_DEVICE_ORDER is
    PCI_BUS_ID. From here on a GPU is known by its UUID, so that two runs never take different numbers for one.
    """
    named = environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return [gpu.uuid for gpu in gpus]
    found: list[str] = []
    for word in filter(None, map(str.strip, named.split(","))):
        match = _matching(gpus, word)
        if len(match) != 1:
            break
        found.append(match[0].uuid)
    return found


def chosen(gpus: list[Gpu], environ: Mapping[str, str], asked: str | None) -> Gpu | None:
    """Return the one GPU of a run: `asked` is nvidia-smi's number or a UUID, without it the first that may be used.

    None where there is none to choose.

    Raises:
        ConfigError: the one that was asked for is not there, or $CUDA_VISIBLE_DEVICES leaves it out.
    """
    usable = visible(gpus, environ)
    if asked is None:
        return next(iter(_matching(gpus, usable[0])), None) if usable else None
    match = _matching(gpus, asked)
    if len(match) != 1:
        there = "; ".join(f"{gpu.index} ({gpu.name}, {gpu.uuid})" for gpu in gpus) or "none"
        raise ConfigError(f"There is no GPU {asked!r} here for --gpu; nvidia-smi lists: {there}.")
    if match[0].uuid not in usable and not match[0].uuid.startswith("MIG-"):
        raise ConfigError(
            f"--gpu {asked} is not among $CUDA_VISIBLE_DEVICES ({environ['CUDA_VISIBLE_DEVICES']!r}); change either."
        )
    return match[0]


def _matching(gpus: list[Gpu], word: str) -> list[Gpu]:
    """Those that a word means: a number, a UUID or the beginning of one; slices are known by their own names."""
    if word.startswith("MIG-"):
        return [Gpu("", word, "a slice of a GPU", "")]
    exact = [gpu for gpu in gpus if word in (gpu.index, gpu.uuid)]
    return exact or [gpu for gpu in gpus if word[:4] == "GPU-" and gpu.uuid.startswith(word)]
