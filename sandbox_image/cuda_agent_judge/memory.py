"""Memory of the device or the process: the peak of one call, and errors that say that there is no more."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from cuda_agent_judge.cudart import CudaFault

_NO_MORE = ("out of memory", "ALLOC_FAILED", "CUBLAS_STATUS_NOT_INITIALIZED")
"""The runtime says the first where there is no room to load a kernel, libraries the rest where they make handles."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out; PyTorch has a type of its own for its own allocations alone."""
    if isinstance(error, torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError | CudaFault) and any(word in str(error) for word in _NO_MORE)


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
