"""One side's calls: private inputs at rotated addresses, the call, and the span this side claims for it.

Both workers run this very code, so that its cost is the same on both sides. What it needs from torch and the clock is
taken when the module is imported, before any submission is: names that a submission rebinds later do not matter.
"""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from cuda_agent_judge import trees
from cuda_agent_judge.buffers import Layout, Leaf
from cuda_agent_judge.cudart import Cudart

_now_ns = time.perf_counter_ns
_copy = torch.Tensor.copy_
_as_strided, _zero = torch.Tensor.as_strided, torch.Tensor.zero_
_gc_disable, _gc_enable = gc.disable, gc.enable
_unflatten = trees.unflatten
FLUSH_BYTES = 256 << 20
SPIN_CYCLES_PER_US = 1900
"""About the clock of a data-centre GPU: how long the spin lasts need not be exact."""


class CallFault(Exception):
    """The device reported an error after a call."""


@dataclass(frozen=True)
class Inputs:
    """How inputs are drawn up: one entry a leaf, an index into the layout or None where it is no tensor."""

    spec: trees.Spec
    slots: tuple[int | None, ...]
    layout: Layout

    def to_json(self) -> dict[str, Any]:
        """As a frame carries it."""
        return {"spec": self.spec.to_json(), "slots": list(self.slots), "layout": self.layout.to_json()}

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> "Inputs":
        """Read it back (from a trusted side)."""
        return cls(trees.Spec.from_json(raw["spec"]), tuple(raw["slots"]), Layout.from_json(raw["layout"]))


@dataclass(frozen=True)
class Done:
    """A call that ended: its result and the span claimed for it."""

    output: Any
    claim_ns: int
    enqueue_ns: int


class Runner:
    """Runs calls on inputs that are refreshed from the shared slot."""

    def __init__(
        self, inputs: Inputs, slot: torch.Tensor, cudart: Cudart | None, sets: int, *, whole_device: bool = True
    ) -> None:
        """Without `whole_device` only its own stream is waited for behind a call: in tests alone."""
        self._inputs = inputs
        self._whole_device = whole_device
        self._cudart = cudart
        self._number = sets
        self.take_memory(slot)
        self._stale = False
        self._args: list[Any] = []
        self._kwargs: dict[str, Any] = {}
        if cudart is not None:
            self._stream = torch.cuda.current_stream()
            self._sleep = torch.cuda._sleep
            self._events = (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))  # type: ignore[no-untyped-call]
            self._record, self._elapsed = torch.cuda.Event.record, torch.cuda.Event.elapsed_time

    def take_memory(self, slot: torch.Tensor) -> None:
        """Make room for the private inputs, which are refreshed from `slot`."""
        leaves = self._inputs.layout.leaves
        device = "cpu" if self._cudart is None else "cuda"
        self._raw_slot = [leaf.raw(slot) for leaf in leaves]
        self._sets = [
            [torch.empty(leaf.extent, dtype=leaf.torch_dtype, device=device) for leaf in leaves]
            for _ in range(self._number)
        ]
        self._flush = None if self._cudart is None else torch.empty(FLUSH_BYTES, dtype=torch.uint8, device=device)
        self._raw: list[torch.Tensor] = self._sets[0]
        self._given: dict[tuple[int, int], torch.Tensor] = {}

    def give_memory(self) -> None:
        """Let the private inputs go."""
        self._raw_slot, self._sets, self._raw, self._flush = [], [], [], None
        self._args, self._kwargs, self._given = [], {}, {}

    @property
    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """What the next call is given."""
        return self._args, self._kwargs

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """How each input is laid out."""
        return self._inputs.layout.leaves

    @property
    def private(self) -> list[torch.Tensor]:
        """The flat extents the next call runs on."""
        return self._raw

    def prepare(
        self,
        index: int,
        values: list[Any],
        *,
        now: bool = False,
        later: bool = False,
        instead: list[torch.Tensor] | None = None,
    ) -> None:
        """Take the private set `index`; refresh it at once on `cpu` or if `now`, else behind the spin of `go`.

        A call that does not go through `go` needs `now`: it would run on the values before. With `later`, `go`
        refreshes on `cpu` too: the slot is not filled yet. `instead` is memory to take in place of a set.
        """
        index = index % len(self._sets) if instead is None else -1
        self._raw = self._sets[index] if instead is None else instead
        pairs = zip(self._inputs.slots, values, strict=True)
        leaves = [value if slot is None else self._tensor(index, slot) for slot, value in pairs]
        given = _unflatten(leaves, self._inputs.spec)
        self._args, self._kwargs = ([], given) if isinstance(given, dict) else (given, {})
        self._stale = later and self._cudart is None
        if now or (self._cudart is None and not later):
            self.refresh()

    def _tensor(self, index: int, slot: int) -> torch.Tensor:
        """The input over this extent: the same object with new values as long as nobody turned it into another."""
        leaf, raw = self._inputs.layout.leaves[slot], self._raw[slot]
        if index < 0:  # memory of one call: nothing here may keep it
            return _as_strided(raw, leaf.shape, leaf.strides)
        known = self._given.get((index, slot))
        as_it_was = (leaf.shape, leaf.strides, raw.data_ptr())
        if known is None or (tuple(known.shape), known.stride(), known.data_ptr()) != as_it_was:
            known = self._given[index, slot] = _as_strided(raw, leaf.shape, leaf.strides)
        return known

    def go(self, call: Callable[..., Any], spin_us: int, times: int = 1) -> Done:
        """Make one call, or so many in a row on the same inputs, flushed in between: the last output is kept.

        Raises:
            CallFault: the device reported an error.
            BaseException: whatever the call raised.
        """
        _gc_disable()
        try:
            repeated = call if times == 1 else _in_a_row(call, times, self._flush_cache)
            return self._go_cpu(repeated) if self._cudart is None else self._go_cuda(repeated, spin_us, self._cudart)
        finally:
            _gc_enable()

    def give_back(self) -> None:
        """Copy the private inputs back into the slot, where the judge's side sees what the call did to them."""
        for raw, slot in zip(self._raw, self._raw_slot, strict=True):
            _copy(slot, raw)

    def refresh(self) -> None:
        """Copy the shared slot into the private set, in stream order on `cuda`."""
        for raw, slot in zip(self._raw, self._raw_slot, strict=True):
            _copy(raw, slot, True)

    def _go_cpu(self, call: Callable[..., Any]) -> Done:
        args, kwargs = self._args, self._kwargs
        if self._stale:
            self.refresh()
            self._stale = False
        start = _now_ns()
        output = call(*args, **kwargs)
        span = _now_ns() - start
        return Done(output, span, span)

    def _go_cuda(self, call: Callable[..., Any], spin_us: int, cudart: Cudart) -> Done:
        # The spin keeps the stream busy while the host enqueues the rest, so that the span holds no host time. The
        # inputs are written behind it: work that does not wait for this stream computes on the previous ones.
        start, end = self._events
        self._check(cudart)
        self._sleep(spin_us * SPIN_CYCLES_PER_US)  # type: ignore[no-untyped-call]
        self.refresh()
        self._flush_cache()
        self._record(start, self._stream)
        began = _now_ns()
        output = call(*self._args, **self._kwargs)
        enqueue = _now_ns() - began
        self._record(end, self._stream)
        self._check(cudart)
        return Done(output, int(self._elapsed(start, end) * 1e6), enqueue)

    def _flush_cache(self) -> None:
        if self._flush is not None:
            _zero(self._flush)

    def _check(self, cudart: Cudart) -> None:
        pending = cudart.last_error()
        late = ""
        if self._whole_device:
            late = cudart.synchronize()
        else:
            self._stream.synchronize()
        if pending or late:
            raise CallFault(pending or late)


def _in_a_row(call: Callable[..., Any], times: int, between: Callable[[], None]) -> Callable[..., Any]:
    """So many calls, each output let go before the next is made."""

    def repeated(*args: Any, **kwargs: Any) -> Any:
        for _ in range(times - 1):
            call(*args, **kwargs)
            between()
        return call(*args, **kwargs)

    return repeated
