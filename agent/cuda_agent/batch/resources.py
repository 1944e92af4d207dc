"""What of this machine a batch may use: its GPUs, how many runs at once, and whether there is room on its disks."""

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cuda_agent.errors import ConfigError
from cuda_agent.sandbox.gpus import Gpu, chosen, listed, visible

LEAST_ROOM_BYTES = 256_000_000
_RUNS_A_GPU = 4
"""While one run times, others wait for their model or compile."""
_RUNS_WITHOUT = 2


def chosen_gpus(asked: str | None, environ: Mapping[str, str], *, found: Sequence[Gpu] | None = None) -> list[str]:
    """Return the UUIDs of the GPUs to use; `asked` is "all" or numbers and UUIDs with commas between.

    Raises:
        ConfigError: one of them is not there.
    """
    there = list(listed() if found is None else found)
    if asked is None or asked == "all":
        return visible(there, environ)
    named = [chosen(there, environ, word) for word in filter(None, map(str.strip, asked.split(",")))]
    uuids = list(dict.fromkeys(one.uuid for one in named if one is not None))
    if not uuids:
        raise ConfigError(f"--gpus {asked!r} names no GPU; give numbers or UUIDs with commas between, or all.")
    return uuids


def default_workers(gpus: int, *, cuda: bool) -> int:
    """Return how many runs at once this machine has room for."""
    if not cuda:
        return _RUNS_WITHOUT
    return max(1, min(_RUNS_A_GPU * max(1, gpus), os.cpu_count() or 1))


def no_room(
    folder: Path, *, least_bytes: int = LEAST_ROOM_BYTES, usage: Callable[[str], Any] = shutil.disk_usage
) -> str:
    """Return a sentence where the batch's disk or that of temporary files is all but full, else ""."""
    for path in (str(folder), tempfile.gettempdir()):
        try:
            free = usage(path).free
        except OSError:
            continue
        if free < least_bytes:
            return f"The disk of {path!r} has only {free // 1_000_000} MB left; free some space."
    return ""
