"""Measures what the device reaches: memory by size, matrix products by arithmetic. A second at most, and kept.

Runs in the reference worker, never beside a timed call. What is measured on a busy machine is too low.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from cuda_agent_judge.gpu import driver_version
from cuda_agent_judge.machine_cache import MachineCache
from cuda_agent_judge.output import write_whole
from cuda_agent_judge.roofline import Ceilings, MemoryRate

_CPU_SIZES = (1 << 20, 16 << 20, 96 << 20)
_CUDA_SIZE = 1 << 30
_BUDGET_S = 0.04
"""For one rate."""
_SPIN_CYCLES = 600_000
_Work = Callable[[], object]


def ceilings(target: str, cache_dir: Path, *, again: bool = False, cache: MachineCache | None = None) -> Ceilings:
    """The ceilings of this device under this torch; measured once, then read from the session or the machine's cache.

    With `again` they are measured once more, and the higher ones count.
    """
    file, key = cache_dir / "ceilings.json", _key(target)
    kept = _read(file, key)
    if kept is None and cache is not None:
        kept = _known(cache.known_of_device(), key)
    if kept is not None and not again:
        return kept
    found = measure(target) if kept is None else measure(target).with_best_of(kept)
    if cache is not None:
        cache.note_of_device({key: found.to_json()})
    write_whole(file, json.dumps({key: found.to_json()}).encode())
    return found


def _read(file: Path, key: str) -> Ceilings | None:
    try:
        return _known(json.loads(file.read_text()), key)
    except (OSError, ValueError):
        return None


def _known(found: Any, key: str) -> Ceilings | None:
    try:
        return Ceilings.from_json(found[key])
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def measure(target: str) -> Ceilings:
    """Measure them now."""
    with torch.no_grad():
        return _measure_cuda() if target == "cuda" else _measure_cpu()


def _key(target: str) -> str:
    if target == "cpu":
        return f"cpu, {torch.get_num_threads()} threads, torch {torch.__version__}"
    return f"{torch.cuda.get_device_name(0)}, driver {driver_version()}, torch {torch.__version__}"


def _measure_cpu() -> Ceilings:
    memory = tuple(_memory(size, "cpu", _wall_ms) for size in _CPU_SIZES)
    side = 512
    a, b = torch.ones(side, side), torch.ones(side, side)
    out = torch.empty(side, side)
    ms = _wall_ms(lambda: torch.mm(a, b, out=out))
    return Ceilings(memory, {"fp32": 2 * side**3 / ms / 1e9}, threads=torch.get_num_threads())


def _measure_cuda() -> Ceilings:
    gpu = torch.cuda.get_device_properties(0)
    free = torch.cuda.mem_get_info()[0]
    cache = int(gpu.L2_cache_size)
    large = max(min(_CUDA_SIZE, free // 8), 1 << 20) & ~0xFFFF
    # A copy has two sides, and both must fit.
    sizes = sorted({max(cache // 3, 1 << 20) & ~0xFFFF, large})
    memory = tuple(_memory(size, "cuda", _device_ms) for size in sizes)
    tflops = {"fp32": _product(4096, torch.float32, "highest"), "tf32": _product(4096, torch.float32, "high")}
    tflops["half"] = _product(8192 if free > 4 << 30 else 4096, torch.bfloat16, "high")
    torch.cuda.empty_cache()
    return Ceilings(memory, tflops, cache_bytes=cache)


def _memory(size: int, device: str, time_ms: Callable[[_Work], float]) -> MemoryRate:
    one = torch.ones(size // 4, dtype=torch.float32, device=device)
    other = torch.empty_like(one)
    side = 4096 if size >= 64 << 20 else 256
    matrix = one[: one.numel() // side * side].view(-1, side)
    vector = torch.ones(side, device=device)
    # Which way of reading is the fastest differs between devices.
    reads: list[_Work] = [lambda: one.sum(), lambda: matrix.sum(1), lambda: torch.mv(matrix, vector)]
    read = min(time_ms(work) for work in reads)
    write = time_ms(lambda: other.fill_(1.0))
    copy = time_ms(lambda: other.copy_(one))
    return MemoryRate(size, size / read / 1e6, size / write / 1e6, 2 * size / copy / 1e6)


def _product(side: int, dtype: torch.dtype, precision: str) -> float:
    # Ones would cost less power than numbers do, and so run at a higher clock.
    source = torch.Generator("cuda").manual_seed(1)
    a, b = (torch.randn(side, side, generator=source, device="cuda").to(dtype) for _ in range(2))
    out = torch.empty_like(a)
    with _float32_precision(precision):
        return 2 * side**3 / _device_ms(lambda: torch.mm(a, b, out=out)) / 1e9


@contextmanager
def _float32_precision(precision: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _wall_ms(work: _Work) -> float:
    """The fastest of a few runs."""
    work()
    best, end = float("inf"), time.perf_counter() + _BUDGET_S
    while best == float("inf") or time.perf_counter() < end:
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def _device_ms(work: _Work) -> float:
    """The fastest of a few rows of runs, each enqueued while the device is held up, so that no host time is in it."""
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    best, end, row = float("inf"), time.perf_counter() + _BUDGET_S, 8
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    while best == float("inf") or time.perf_counter() < end:
        torch.cuda._sleep(_SPIN_CYCLES)  # type: ignore[no-untyped-call]
        start.record()
        for _ in range(row):
            work()
        stop.record()
        torch.cuda.synchronize()
        best = min(best, start.elapsed_time(stop) / row)
    return best
