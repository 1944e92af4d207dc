"""Calls that last longer by a share of their own time: a known gain or loss, to see whether the judge finds it."""

import time
from collections.abc import Callable
from typing import Any

import torch

_now_ns = time.perf_counter_ns
_MEASURED_CYCLES, _SPINS = 2_000_000, 20
"""Of about a millisecond, the shortest of which counts: an idle GPU takes a while until its clock is up."""


def slowed(call: Callable[..., Any], share: float, *, on_gpu: bool) -> Callable[..., Any]:
    """The call, drawn out by `share` of its time; itself where that is 0."""
    if not share:
        return call
    return _OnDevice(call, share) if on_gpu else _on_host(call, share)


def _on_host(call: Callable[..., Any], share: float) -> Callable[..., Any]:
    def drawn_out(*args: Any, **kwargs: Any) -> Any:
        start = _now_ns()
        output = call(*args, **kwargs)
        until = _now_ns() + share * (_now_ns() - start)
        while _now_ns() < until:
            pass
        return output

    return drawn_out


class _OnDevice:
    """Enqueues a spin behind the call, as long as its share of the calls before took on the device."""

    def __init__(self, call: Callable[..., Any], share: float) -> None:
        self._call = call
        self._share = share
        self._stream = torch.cuda.current_stream()
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]  # type: ignore[no-untyped-call]
        self._cycles_per_ms = 0.0
        self._took_ms: list[float] = []
        self._pending = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        start, end = self._events
        if not self._cycles_per_ms:  # not before: while a submission is loaded the device may be another's
            took_ms = min(self._time(lambda: torch.cuda._sleep(_MEASURED_CYCLES)) for _ in range(_SPINS))  # type: ignore[no-untyped-call]
            self._cycles_per_ms = _MEASURED_CYCLES / took_ms
        if self._pending and end.query():  # type: ignore[no-untyped-call]  # calls in a row are still in line
            self._took_ms = [*self._took_ms[-8:], start.elapsed_time(end)]
        start.record(self._stream)
        output = self._call(*args, **kwargs)
        end.record(self._stream)
        self._pending = True
        if self._took_ms:
            typical = sorted(self._took_ms)[len(self._took_ms) // 2]
            torch.cuda._sleep(int(self._share * typical * self._cycles_per_ms))  # type: ignore[no-untyped-call]
        return output

    def _time(self, work: Callable[[], None]) -> float:
        start, end = self._events
        start.record(self._stream)
        work()
        end.record(self._stream)
        end.synchronize()
        return float(start.elapsed_time(end))
