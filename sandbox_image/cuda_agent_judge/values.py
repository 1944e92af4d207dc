"""Values of a traced graph and how they share memory: which id names what a tensor holds now.

Writing into memory makes every tensor on it stale. What was written gets the writing node's id; the tensor it is a view
of gets a new id from an implied node (`aten.slice_scatter` and its kin); any other view is taken anew when it is next
used. So each id names one value for ever and the graph reads like one without mutation.
"""

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

Json = Any
"""What json.dumps takes."""
Emit = Callable[[str, list[Json], dict[str, Json], list["Geometry"]], list[str]]
"""Adds a node that is implied by a mutation; returns the ids of its outputs."""

_SCATTERS = {
    "aten.slice.Tensor": "aten.slice_scatter.default",
    "aten.select.int": "aten.select_scatter.default",
    "aten.diagonal.default": "aten.diagonal_scatter.default",
}
# Views that keep the logical order of all elements.
_RESHAPES = ("view", "_unsafe_view", "_reshape_alias", "unsqueeze", "squeeze")
_SAME = ("alias", "detach", "lift_fresh")


@dataclass(frozen=True)
class Geometry:
    """Where the elements of a tensor lie."""

    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    """None for a layout that is not strided."""
    offset: int
    dtype: torch.dtype

    @classmethod
    def of(cls, tensor: torch.Tensor) -> "Geometry":
        """Read it off a tensor."""
        if tensor.layout is not torch.strided or tensor.is_nested:
            return cls(tuple(tensor.shape) if not tensor.is_nested else (), None, 0, tensor.dtype)
        return cls(tuple(tensor.shape), tuple(tensor.stride()), int(tensor.storage_offset()), tensor.dtype)

    @property
    def numel(self) -> int:
        """Elements, as the shape says."""
        return functools.reduce(operator.mul, self.shape, 1)

    @property
    def touched_bytes(self) -> int:
        """Bytes that reading all of it touches: a dimension of stride 0 is read once."""
        if self.strides is None:
            return self.numel * self.dtype.itemsize
        sizes = [size for size, stride in zip(self.shape, self.strides, strict=True) if stride or not size]
        return functools.reduce(operator.mul, sizes, 1) * self.dtype.itemsize

    def span(self) -> tuple[int, int]:
        """First byte and the byte after the last, within the storage."""
        if self.strides is None or not self.numel:
            return (0, 0) if self.strides is not None else (0, 2**62)
        last = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        return self.offset * self.dtype.itemsize, (self.offset + last + 1) * self.dtype.itemsize

    def to_json(self) -> dict[str, Json]:
        """Shape, strides, dtype and bytes."""
        return {
            "shape": list(self.shape),
            "strides": None if self.strides is None else list(self.strides),
            "dtype": str(self.dtype).removeprefix("torch."),
            "bytes": self.numel * self.dtype.itemsize,
        }


@dataclass
class Memory:
    """A storage and the byte ranges written into it, in order."""

    writes: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True)
class View:
    """How a tensor came from another one: a node's operation on `parent`, its first argument."""

    parent: "Value"
    op: str
    args: list[Json]
    """Encoded; the first is the parent."""
    kwargs: dict[str, Json]
    output: int
    outputs: list[Geometry]


@dataclass
class Value:
    """One tensor object and the id of what it holds."""

    id: str
    geometry: Geometry
    memory: Memory
    view: View | None = None
    seen: int = 0
    """How many writes of the memory the id reflects."""

    @property
    def root(self) -> "Value":
        """The tensor that this is a view of, through all views."""
        value = self
        while value.view is not None:
            value = value.view.parent
        return value


class Values:
    """Keeps ids current."""

    def __init__(self, emit: Emit, note: Callable[[str], None]) -> None:
        self._emit = emit
        self._note = note

    def current(self, value: Value) -> str:
        """The id of what the tensor holds now."""
        missed = value.memory.writes[value.seen :]
        value.seen = len(value.memory.writes)
        low, high = value.geometry.span()
        if not any(start < high and low < end for start, end in missed):
            return value.id
        if value.view is None:
            self._note(f"{value.id} shares memory with a tensor that was written, in a way that was not seen")
            return value.id
        view = value.view
        args = [{"ref": self.current(view.parent)}, *view.args[1:]]
        value.id = self._emit(view.op, args, view.kwargs, view.outputs)[view.output]
        return value.id

    def written(self, value: Value, new_id: str) -> list[str]:
        """Take note that a tensor was written and now holds `new_id`; returns the ids that are no longer current."""
        stale = [value.id]
        # Bring what it is a view of up to date before this write counts.
        chain: list[Value] = []
        ancestor = value
        while ancestor.view is not None:
            ancestor = ancestor.view.parent
            self.current(ancestor)
            chain.append(ancestor)
        value.id = new_id
        value.memory.writes.append(value.geometry.span())
        value.seen = len(value.memory.writes)
        child = value
        for parent in chain:
            stale.append(parent.id)
            parent.id = self._put_back(parent, child)
            parent.seen = len(value.memory.writes)
            child = parent
        return stale

    def _put_back(self, parent: Value, child: Value) -> str:
        """The id of the parent after `child`, a view of it, has changed."""
        view = child.view
        assert view is not None
        name = view.op.split(".")[1]
        new = {"ref": child.id}
        geometry = [parent.geometry]
        if name in _SAME:
            return child.id
        if name in _RESHAPES and child.geometry.numel == parent.geometry.numel:
            return self._emit("aten.reshape.default", [new, list(parent.geometry.shape)], {}, geometry)[0]
        if name in ("t", "transpose"):
            return self._emit(view.op, [new, *view.args[1:]], {}, geometry)[0]
        if name == "permute":
            order = [dim % len(parent.geometry.shape) for dim in view.args[1]]
            inverse = sorted(range(len(order)), key=order.__getitem__)
            return self._emit(view.op, [new, inverse], {}, geometry)[0]
        old = {"ref": parent.id}
        if name in ("split", "split_with_sizes"):
            dim = view.args[2] % len(parent.geometry.shape)
            start = sum(part.shape[dim] for part in view.outputs[: view.output])
            place = [dim, start, start + child.geometry.shape[dim], 1]
            return self._emit("aten.slice_scatter.default", [old, new, *place], {}, geometry)[0]
        if name == "unbind":
            return self._emit("aten.select_scatter.default", [old, new, view.args[1], view.output], {}, geometry)[0]
        if view.op in _SCATTERS:
            return self._emit(_SCATTERS[view.op], [old, new, *view.args[1:]], {}, geometry)[0]
        if child.geometry.strides is None:
            self._note(f"{parent.id} was changed through a view that cannot be described")
            return parent.id
        place = [
            list(child.geometry.shape),
            list(child.geometry.strides),
            child.geometry.offset - parent.geometry.offset,
        ]
        return self._emit("aten.as_strided_scatter.default", [old, new, *place], {}, geometry)[0]
