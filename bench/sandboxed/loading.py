"""Keeps a GPU or a core busy with matrix products and copies until its stdin ends, as it does when its starter does.

    PYTHON -I -B bench/sandboxed/loading.py cuda|cpu [CORE]

Of GPUs it takes the one that is visible. The first line of stdout is the GPU's UUID or the core; then there is a line
several times a second: when (monotonic clock, s), and what was done by then: arithmetic (flop) and copies (bytes).
"""

import os
import sys
import threading
import time
from typing import Any

REPORT_S = 0.1
QUEUED = 2
"""So many rounds lie ready: the device never waits for the host."""
GPU_SIZE, GPU_PRODUCTS = 8192, 8
GPU_COPY, GPU_COPIES, HOST_COPY = 1 << 30, 24, 64 << 20
CORE_SIZE, CORE_COPY = 512, 16 << 20


def main(target: str, core: str = "") -> None:
    """Work until stdin ends."""
    threading.Thread(target=leave_with_starter, daemon=True).start()
    if core:
        os.sched_setaffinity(0, {int(core)})
    work: Any = OnGpu() if target == "cuda" else OnCore(core)
    print(work.device, flush=True)
    flop = copied = said = 0.0
    while True:
        done = work.round()
        flop, copied, now = flop + done[0], copied + done[1], time.monotonic()
        if flop and now - said > REPORT_S:
            said = now
            print(f"{now:.3f} {flop:.6g} {copied:.6g}", flush=True)


def leave_with_starter() -> None:
    """End this process when nobody can write to its stdin any more."""
    while os.read(0, 1):
        pass
    os._exit(0)


class OnGpu:
    """Products of half precision on one stream; on another, copies within its memory and from the host's."""

    def __init__(self) -> None:
        import torch

        self._torch = torch
        self.device = str(torch.cuda.get_device_properties(0).uuid)
        self._streams = [torch.cuda.Stream(), torch.cuda.Stream()]
        self._factors = [torch.randn(GPU_SIZE, GPU_SIZE, device="cuda", dtype=torch.half) for _ in range(2)]
        self._product = torch.empty_like(self._factors[0])
        self._areas = [torch.ones(GPU_COPY, device="cuda", dtype=torch.uint8) for _ in range(2)]
        self._host = torch.ones(HOST_COPY, dtype=torch.uint8, pin_memory=True)
        self._queued: list[list[Any]] = []
        torch.cuda.synchronize()

    def round(self) -> tuple[float, float]:
        """Add a round to those that lie ready; returns what is done when the one in front of them has ended."""
        torch = self._torch
        with torch.cuda.stream(self._streams[0]):
            for _ in range(GPU_PRODUCTS):
                torch.mm(*self._factors, out=self._product)
        with torch.cuda.stream(self._streams[1]):
            for _ in range(GPU_COPIES):
                self._areas[1].copy_(self._areas[0])
            self._areas[1][:HOST_COPY].copy_(self._host, non_blocking=True)
        events = [torch.cuda.Event(blocking=True) for _ in self._streams]  # waiting takes no core
        for event, stream in zip(events, self._streams, strict=True):
            event.record(stream)
        self._queued.append(events)
        if len(self._queued) <= QUEUED:
            return 0.0, 0.0
        for event in self._queued.pop(0):
            event.synchronize()
        return GPU_PRODUCTS * 2.0 * GPU_SIZE**3, 1.0 * GPU_COPIES * GPU_COPY + HOST_COPY


class OnCore:
    """Products in single precision and copies, on one thread."""

    def __init__(self, core: str) -> None:
        import torch

        torch.set_num_threads(1)
        self._torch = torch
        self.device = core
        self._factors = [torch.randn(CORE_SIZE, CORE_SIZE) for _ in range(2)]
        self._product = torch.empty_like(self._factors[0])
        self._areas = [torch.ones(CORE_COPY, dtype=torch.uint8) for _ in range(2)]

    def round(self) -> tuple[float, float]:
        """One product and one copy; returns what was done."""
        self._torch.mm(*self._factors, out=self._product)
        self._areas[1].copy_(self._areas[0])
        return 2.0 * CORE_SIZE**3, float(CORE_COPY)


if __name__ == "__main__":
    main(*sys.argv[1:])
