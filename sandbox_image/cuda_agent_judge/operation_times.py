"""How long each operation of a call takes, by name: every one that PyTorch dispatches, on the device's own clock.

Done without a profiler, which takes seconds to start on `cuda`.
"""

import time
from collections.abc import Callable
from typing import Any

import torch

from cuda_agent_judge.dispatching import Dispatching

Call = Callable[[], Any]
Times = dict[str, tuple[int, float]]
"""Calls and microseconds by name ("mm")."""
_RUNS = 3
_BUDGET_S = 1.0
_SPIN_CYCLES_A_CALL = 200_000
"""Holding the device up for about 100 us for each operation: the host needs less to enqueue one."""
_MAX_SPIN_CYCLES = 1_000_000_000


def operation_times(ready: Callable[[], Call], target: str, operations: int) -> Times:
    """Times of the fastest of a few runs; `ready` prepares inputs and returns a call of so many operations."""
    found: list[Times] = []
    end = time.monotonic() + _BUDGET_S
    ready()()  # what the first call tunes and allocates is no cost of the operator
    while len(found) < _RUNS and (not found or time.monotonic() < end):
        found.append(_on_device(ready(), operations) if target == "cuda" else _on_host(ready()))
    return min(found, key=lambda times: sum(us for _, us in times.values()))


class _Watch(Dispatching):  # type: ignore[no-untyped-call]
    """Runs each operation between two marks."""

    def __init__(self, mark: Callable[[], Any]) -> None:
        super().__init__()
        self._mark = mark
        self.spans: list[tuple[str, Any, Any]] = []

    def see(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        start = self._mark()
        result = func(*args, **kwargs)
        self.spans.append((str(func._schema.name).rpartition("::")[2], start, self._mark()))
        return result


def _on_host(call: Call) -> Times:
    watch = _Watch(time.perf_counter_ns)
    with torch.no_grad(), watch:
        call()
    return _added((name, (end - start) / 1e3) for name, start, end in watch.spans)


def _on_device(call: Call, operations: int) -> Times:
    def mark() -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    watch = _Watch(mark)
    torch.cuda.synchronize()
    torch.cuda._sleep(min(_SPIN_CYCLES_A_CALL * (operations + 3), _MAX_SPIN_CYCLES))  # type: ignore[no-untyped-call]
    with torch.no_grad(), watch:
        call()
    torch.cuda.synchronize()
    return _added((name, start.elapsed_time(end) * 1e3) for name, start, end in watch.spans)


def _added(spans: Any) -> Times:
    found: Times = {}
    for name, us in spans:
        calls, sum_us = found.get(name, (0, 0.0))
        found[name] = (calls + 1, sum_us + us)
    return found
