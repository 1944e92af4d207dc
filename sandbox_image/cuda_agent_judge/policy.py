"""What a submission's call used: its own operations, and library compute that the policy refuses.

Two observers watch one call, because each is blind to something: a dispatch mode sees what Python calls (and keeps
torch.compile from hiding it), the profiler also sees ATen called from inside the submission's own C++ operations.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any

import torch
from torch._C._autograd import _disable_profiler_legacy as _stop_profiler
from torch._C._autograd import _enable_profiler_legacy as _start_profiler
from torch._C._profiler import ProfilerConfig as _ProfilerConfig
from torch._C._profiler import ProfilerState as _ProfilerState
from torch._C._profiler import _ExperimentalConfig

from cuda_agent_judge.dispatching import Dispatching
from cuda_agent_judge.red_zones import RedZones

NAMESPACE = "cuda_extension"
_NO_OPTIONS = _ExperimentalConfig()
_PYTORCHS = frozenset({"aten", "prim", "prims"})
_NEUTRAL_NAMESPACES = frozenset({"prim", "profiler", NAMESPACE})
_MOVES_NO_ARITHMETIC = frozenset(
    (
        *("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"),
        *("zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "full", "full_like", "new_full"),
        *("scalar_tensor", "arange", "fill", "fill_", "zero", "zero_", "copy_", "clone", "contiguous", "_to_copy"),
        *("detach", "detach_", "lift", "lift_fresh", "alias", "set_", "resize_", "record_stream", "pin_memory"),
        *("_pin_memory", "is_pinned", "item", "_local_scalar_dense", "_reshape_alias", "_reshape_copy"),
        *("_unsafe_view", "is_same_size"),
    )
)


class Audit(Dispatching):  # type: ignore[no-untyped-call]
    """Records the operations of one call by name ("aten::mm"), and has tensors placed between `zones`."""

    def __init__(self, zones: RedZones | None = None) -> None:
        super().__init__()
        self.names: set[str] = set()
        self._zones = zones

    def see(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.names.add(f"{func.namespace}::{func._schema.name.rpartition('::')[2]}")
        if self._zones is None:
            return func(*args, **kwargs)
        return (self._zones.carry_out if func.namespace in _PYTORCHS else self.inside)(func, args, kwargs)


def audit(call: Callable[[], Any], own_modules: Iterable[ModuleType], zones: RedZones | None = None) -> dict[str, Any]:
    """Make one call and say which refused operations and whether any own function ran.

    `own_modules` are the pybind modules that were built from the submission; what it allocates lies between `zones`.
    """
    mode = Audit(zones)
    own: set[str] = set()
    seen: set[str] = set()
    with _profiled(seen), mode, _watched(own_modules, own):
        call()
    names = mode.names | {name for name in seen if "::" in name}
    own |= {name for name in names if name.startswith(NAMESPACE + "::")}
    return {"refused": sorted(name for name in names if refused(name)), "own": sorted(own), "compiled": compiled()}


@contextmanager
def _profiled(seen: set[str]) -> Iterator[None]:
    """Add the names of what is dispatched.

    The profiler without Kineto, which takes seconds to start on a CUDA build.
    """
    _start_profiler(_ProfilerConfig(_ProfilerState.CPU, False, False, False, False, False, _NO_OPTIONS))
    try:
        yield
    finally:
        seen.update(event.name() for thread in _stop_profiler() for event in thread)


def refused(name: str) -> bool:
    """Whether an operation computes for the submission: not a view, no allocation, no fill, no copy, not its own."""
    namespace, _, base = name.partition("::")
    if namespace in _NEUTRAL_NAMESPACES or base in _MOVES_NO_ARITHMETIC:
        return False
    packet = getattr(getattr(torch.ops, namespace), base, None)
    if packet is None or not hasattr(packet, "overloads"):
        return False
    overloads = [overload for overload in _overloads(packet) if _is_registered(overload)]
    # A composite operation is judged by what it consists of.
    return not overloads or not all(_is_view(overload) or _is_composite(overload) for overload in overloads)


def compiled() -> bool:
    """Whether torch.compile was at work in this process."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    counters = getattr(dynamo, "counters", {})
    return bool(counters.get("frames")) or bool(counters.get("stats"))


def _overloads(packet: Any) -> list[Any]:
    """The overloads that speak for an operation: not those by dimension name or into a given result."""
    made = [getattr(packet, name) for name in packet.overloads()]
    return [overload for overload in made if "Dimname" not in str(overload._schema) and not _has_out(overload)]


def _has_out(overload: Any) -> bool:
    return any(argument.is_out for argument in overload._schema.arguments)


def _is_registered(overload: Any) -> bool:
    """Whether the dispatcher knows it; TorchScript adds overloads on lists and scalars of its own."""
    return bool(torch._C._dispatch_has_kernel(overload.name()))


def _is_view(overload: Any) -> bool:
    return any(r.alias_info is not None and not r.alias_info.is_write for r in overload._schema.returns)


def _is_composite(overload: Any) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(overload.name(), "CompositeImplicitAutograd"))


@contextmanager
def _watched(modules: Iterable[ModuleType], own: set[str]) -> Iterator[None]:
    """Note calls into pybind modules, whose functions no dispatcher sees."""
    functions = {id(v): k for module in modules for k, v in vars(module).items() if callable(v)}

    def observe(frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call" and id(argument) in functions:
            own.add(f"{NAMESPACE}::{functions[id(argument)]}")

    if not functions:
        yield
        return
    sys.setprofile(observe)
    try:
        yield
    finally:
        sys.setprofile(None)
