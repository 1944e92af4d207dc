"""The loops of a stage: dimensions in the output's memory order, merged where every access allows it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from cuda_agent.llm.builtin.expr import Expr, Index, Load, depth_first, map_index
from cuda_agent.llm.builtin.graph import Shape, numel
from cuda_agent.llm.builtin.stage import Buffer, Stage


@dataclass(frozen=True)
class Access:
    """One distinct way in which a buffer is read."""

    name: str
    buffer: Buffer
    index: Index


@dataclass(frozen=True)
class Nest:
    """Loops over `sizes`, the last one innermost; every output is written in row-major order of these loops."""

    sizes: Shape
    outputs: tuple[Buffer, ...]
    exprs: tuple[Expr, ...]
    accesses: tuple[Access, ...]
    tile_axis: int | None
    """The loop along which transposed reads are contiguous; None when there are none."""

    @property
    def inner(self) -> int:
        """The size of the innermost loop."""
        return self.sizes[-1]

    @property
    def total(self) -> int:
        """Elements of one output."""
        return numel(self.sizes)

    @property
    def reads(self) -> tuple[Buffer, ...]:
        """What it reads and does not write, each buffer once."""
        return only_read(self.accesses, self.outputs)

    def access(self, load: Load) -> Access:
        """Return the access that a load is."""
        return next(a for a in self.accesses if a.buffer.name == load.source and a.index == load.index)

    def is_in_place(self, output: Buffer) -> bool:
        """Whether it reads an output's elements before it writes them."""
        return any(access.buffer.name == output.name for access in self.accesses)

    def is_transposed(self, access: Access) -> bool:
        """Whether it is read along the tile axis."""
        return self.tile_axis is not None and _is_transposed(access.index, self.tile_axis)


def only_read(accesses: Sequence[Access], outputs: Sequence[Buffer]) -> tuple[Buffer, ...]:
    """Return the buffers that are read and not written, each once."""
    written = {buffer.name for buffer in outputs}
    found = {access.buffer.name: access.buffer for access in accesses if access.buffer.name not in written}
    return tuple(found.values())


def plan_nest(stage: Stage, buffers: dict[str, Buffer]) -> Nest:
    """Order and merge the loops of a stage."""
    strides = stage.strides
    order = [k for k, size in enumerate(stage.shape) if size != 1]
    order.sort(key=lambda k: -strides[k])
    sizes = [stage.shape[k] for k in order]
    exprs = [
        map_index(store.expr, lambda index: Index(index.offset, tuple(index.strides[k] for k in order)))
        for store in stage.stores
    ]
    groups = _merge(sizes, [node.index for node in depth_first(exprs) if hasattr(node, "index")])
    exprs = [map_index(expr, lambda index: _merged(index, groups)) for expr in exprs]
    merged = tuple(numel([sizes[k] for k in group]) for group in groups) or (1,)
    accesses = _accesses(exprs, buffers)
    return Nest(
        merged,
        tuple(store.buffer for store in stage.stores),
        tuple(exprs),
        accesses,
        _tile_axis(merged, accesses),
    )


def _merge(sizes: Sequence[int], indices: Sequence[Index]) -> list[list[int]]:
    groups: list[list[int]] = []
    for k in range(len(sizes)):
        joins = bool(groups) and all(index.strides[groups[-1][-1]] == index.strides[k] * sizes[k] for index in indices)
        if joins:
            groups[-1].append(k)
        else:
            groups.append([k])
    return groups


def _merged(index: Index, groups: list[list[int]]) -> Index:
    return Index(index.offset, tuple(index.strides[group[-1]] for group in groups) or (0,))


def _accesses(exprs: Sequence[Expr], buffers: dict[str, Buffer]) -> tuple[Access, ...]:
    found: dict[tuple[str, Index], Access] = {}
    for node in depth_first(list(exprs)):
        if isinstance(node, Load) and (node.source, node.index) not in found:
            found[node.source, node.index] = Access(f"x{len(found)}", buffers[node.source], node.index)
    return tuple(found.values())


def _is_transposed(index: Index, axis: int) -> bool:
    return abs(index.strides[-1]) > 1 and index.strides[axis] == 1


def _tile_axis(sizes: Shape, accesses: Sequence[Access]) -> int | None:
    votes: Counter[int] = Counter()
    for access in accesses:
        for axis, stride in enumerate(access.index.strides[:-1]):
            if stride == 1 and abs(access.index.strides[-1]) > 1 and sizes[axis] >= 8 and sizes[-1] >= 8:
                votes[axis] += 1
    return votes.most_common(1)[0][0] if votes else None
