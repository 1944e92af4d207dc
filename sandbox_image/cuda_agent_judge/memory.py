"""Peak memory of one call: device memory on `cuda`, the resident set on `cpu`."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch


def peak_of(call: Callable[[], Any], target: str) -> int:
    """Run a call and return the peak in bytes, 0 where it cannot be read."""
    if target == "cuda":
        torch.cuda.reset_peak_memory_stats()
        call()
        torch.cuda.synchronize()
        return int(torch.cuda.max_memory_allocated())
    with contextlib.suppress(OSError):
        # 5 resets the high-water mark of the resident set.
        Path("/proc/self/clear_refs").write_text("5")
    call()
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0
