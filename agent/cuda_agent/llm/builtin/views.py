"""ATen's views as changes of index maps: nothing is moved, an element is read from somewhere else."""

from collections.abc import Callable

from cuda_agent.llm.builtin.expr import Index, Value, map_index, reshaped
from cuda_agent.llm.builtin.graph import Node, Shape, numel

View = Callable[[Value, Node], Value]


def axis(dim: int, rank: int) -> int:
    """Return a dimension counted from the front."""
    return dim + rank if dim < 0 else dim


def reindexed(value: Value, shape: Shape, change: Callable[[Index], Index]) -> Value:
    """Return the value with another shape and index map."""
    return Value(shape, map_index(value.expr, change))


def permute(value: Value, order: list[int]) -> Value:
    """Reorder the dimensions."""
    rank = len(value.shape)
    order = [axis(dim, rank) for dim in order]
    result = reindexed(
        value,
        tuple(value.shape[dim] for dim in order),
        lambda index: Index(index.offset, tuple(index.strides[dim] for dim in order)),
    )
    if value.diagonal is None or {*order[-2:]} != {rank - 2, rank - 1}:
        return result
    lead = order[:-2]
    moved = map_index(
        value.diagonal, lambda index: Index(index.offset, (*(index.strides[d] for d in lead), index.strides[-1]))
    )
    return Value(result.shape, result.expr, diagonal=moved)


def swap(value: Value, first: int, second: int) -> Value:
    """Exchange two dimensions."""
    rank = len(value.shape)
    if rank == 0:
        return value
    order = list(range(rank))
    first, second = axis(first, rank), axis(second, rank)
    order[first], order[second] = second, first
    return permute(value, order)


def reshape(value: Value, sizes: list[int]) -> Value:
    """Another shape of the same elements in row-major order.

    Raises:
        NotAffine: that cannot be said without writing the value to memory first.
    """
    shape = _resolve(sizes, numel(value.shape))
    if shape == value.shape:
        return value
    old = value.shape
    diagonal = None
    if value.diagonal is not None and len(shape) >= 2 and shape[-2:] == old[-2:]:
        diagonal = map_index(value.diagonal, lambda index: reshaped(index, old[:-1], shape[:-1]))
    expr = map_index(value.expr, lambda index: reshaped(index, old, shape))
    return Value(shape, expr, diagonal=diagonal)


def _resolve(sizes: list[int], count: int) -> Shape:
    if -1 not in sizes:
        return tuple(sizes)
    known = numel([size for size in sizes if size != -1])
    return tuple(count // max(known, 1) if size == -1 else size for size in sizes)


def expand(value: Value, sizes: list[int]) -> Value:
    """Broadcast to a larger shape; -1 keeps a size."""
    lead = len(sizes) - len(value.shape)
    shape = tuple(value.shape[k - lead] if size == -1 else size for k, size in enumerate(sizes))
    old = value.shape

    def change(index: Index, kept: Shape = old, target: Shape = shape) -> Index:
        strides = tuple(
            0 if a != b else stride for a, b, stride in zip(kept, target[lead:], index.strides, strict=True)
        )
        return Index(index.offset, (0,) * lead + strides)

    diagonal = None
    if value.diagonal is not None and shape[-2:] == old[-2:]:
        diagonal = map_index(value.diagonal, lambda index: change(index, old[:-1], shape[:-1]))
    return Value(shape, map_index(value.expr, change), diagonal=diagonal)


def unsqueeze(value: Value, dim: int) -> Value:
    """Insert a dimension of size 1."""
    dim = axis(dim, len(value.shape) + 1)

    def change(index: Index) -> Index:
        return Index(index.offset, (*index.strides[:dim], 0, *index.strides[dim:]))

    diagonal = None
    if value.diagonal is not None and dim <= len(value.shape) - 2:
        diagonal = map_index(value.diagonal, change)
    shape = (*value.shape[:dim], 1, *value.shape[dim:])
    return Value(shape, map_index(value.expr, change), diagonal=diagonal)


def squeeze(value: Value, dims: list[int] | None) -> Value:
    """Drop dimensions of size 1."""
    rank = len(value.shape)
    wanted = set(range(rank)) if dims is None else {axis(dim, rank) for dim in dims}
    kept = [k for k in range(rank) if k not in wanted or value.shape[k] != 1]
    result = reindexed(
        value,
        tuple(value.shape[k] for k in kept),
        lambda index: Index(index.offset, tuple(index.strides[k] for k in kept)),
    )
    if value.diagonal is None or kept[-2:] != [rank - 2, rank - 1]:
        return result
    moved = map_index(value.diagonal, lambda index: Index(index.offset, tuple(index.strides[k] for k in kept[:-1])))
    return Value(result.shape, result.expr, diagonal=moved)


def select(value: Value, dim: int, position: int) -> Value:
    """One slice, its dimension dropped."""
    dim = axis(dim, len(value.shape))
    position = axis(position, value.shape[dim])

    def change(index: Index) -> Index:
        strides = index.strides
        return Index(index.offset + position * strides[dim], (*strides[:dim], *strides[dim + 1 :]))

    diagonal = None
    if value.diagonal is not None and dim < len(value.shape) - 2:
        diagonal = map_index(value.diagonal, change)
    shape = (*value.shape[:dim], *value.shape[dim + 1 :])
    return Value(shape, map_index(value.expr, change), diagonal=diagonal)


def slice_(value: Value, dim: int, start: int | None, end: int | None, step: int = 1) -> Value:
    """value[start:end:step] along one dimension."""
    dim = axis(dim, len(value.shape))
    start, end, step = slice(start, end, step).indices(value.shape[dim])
    size = max(0, -(-(end - start) // step))

    def change(index: Index) -> Index:
        strides = index.strides
        return Index(index.offset + start * strides[dim], (*strides[:dim], strides[dim] * step, *strides[dim + 1 :]))

    return reindexed(value, (*value.shape[:dim], size, *value.shape[dim + 1 :]), change)


def flip(value: Value, dims: list[int]) -> Value:
    """Reverse dimensions."""
    turned = {axis(dim, len(value.shape)) for dim in dims}
    shape = value.shape

    def change(index: Index) -> Index:
        offset = index.offset + sum(index.strides[d] * (shape[d] - 1) for d in turned if shape[d])
        return Index(offset, tuple(-s if d in turned else s for d, s in enumerate(index.strides)))

    return reindexed(value, shape, change)


def diagonal(value: Value, offset: int, first: int, second: int) -> Value:
    """Return the diagonal of two dimensions, put last."""
    rank = len(value.shape)
    first, second = axis(first, rank), axis(second, rank)
    rows, columns = value.shape[first], value.shape[second]
    size = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    rest = [d for d in range(rank) if d not in (first, second)]

    def change(index: Index) -> Index:
        strides = index.strides
        start = index.offset + (offset * strides[second] if offset >= 0 else -offset * strides[first])
        return Index(start, (*(strides[d] for d in rest), strides[first] + strides[second]))

    return reindexed(value, (*(value.shape[d] for d in rest), size), change)


def unfold(value: Value, dim: int, size: int, step: int) -> Value:
    """Sliding windows along a dimension, each put last."""
    dim = axis(dim, len(value.shape))
    count = (value.shape[dim] - size) // step + 1

    def change(index: Index) -> Index:
        strides = index.strides
        return Index(index.offset, (*strides[:dim], strides[dim] * step, *strides[dim + 1 :], strides[dim]))

    return reindexed(value, (*value.shape[:dim], count, *value.shape[dim + 1 :], size), change)


def spread(value: Value, times: list[int]) -> Value:
    """Return what a reshape turns into `repeat`: each repeated dimension as two, the repetition first."""
    shape = (1,) * (len(times) - len(value.shape)) + value.shape
    wide = reshape(value, list(shape))
    for k in range(len(times)):
        wide = unsqueeze(wide, 2 * k)
    return expand(wide, [n for pair in zip(times, shape, strict=True) for n in pair])


def _squeeze_node(value: Value, node: Node) -> Value:
    dims = node.arg(1, "dim")
    return squeeze(value, [dims] if isinstance(dims, int) else dims)


def _expand_node(value: Value, node: Node) -> Value:
    return expand(value, node.arg(1))


def _whole(value: Value, _node: Node) -> Value:
    return value


def _same_shape(value: Value, node: Node) -> Value:
    return reshape(value, list(node.out.shape))


VIEWS: dict[str, View] = {
    "alias": _whole,
    "detach": _whole,
    "lift_fresh": _whole,
    "contiguous": _whole,
    "clone": _whole,
    "lift_fresh_copy": _whole,
    "positive": _whole,
    "t": lambda v, n: swap(v, 0, 1) if len(v.shape) == 2 else v,
    "transpose": lambda v, n: swap(v, n.arg(1), n.arg(2)),
    "swapaxes": lambda v, n: swap(v, n.arg(1), n.arg(2)),
    "adjoint": lambda v, n: swap(v, -1, -2),
    "mT": lambda v, n: swap(v, -1, -2),
    "numpy_T": lambda v, n: permute(v, list(range(len(v.shape)))[::-1]),
    "permute": lambda v, n: permute(v, n.arg(1)),
    "view": _same_shape,
    "_unsafe_view": _same_shape,
    "reshape": _same_shape,
    "_reshape_alias": _same_shape,
    "flatten": _same_shape,
    "unflatten": _same_shape,
    "expand": _expand_node,
    "unsqueeze": lambda v, n: unsqueeze(v, n.arg(1)),
    "squeeze": _squeeze_node,
    "select": lambda v, n: select(v, n.arg(1), n.arg(2)),
    "slice": lambda v, n: slice_(v, n.arg(1, "dim", 0), n.arg(2, "start"), n.arg(3, "end"), n.arg(4, "step", 1)),
    "narrow": lambda v, n: slice_(v, n.arg(1), n.arg(2), n.arg(2) + n.arg(3)),
    "flip": lambda v, n: flip(v, n.arg(1)),
    "diagonal": lambda v, n: diagonal(v, n.arg(1, "offset", 0), n.arg(2, "dim1", 0), n.arg(3, "dim2", 1)),
    "unfold": lambda v, n: unfold(v, n.arg(1), n.arg(2), n.arg(3)),
}
VIEWS |= {f"{name}_copy": view for name, view in VIEWS.items()}


def split(value: Value, node: Node) -> list[Value]:
    """split, split_with_sizes, unbind: one value an output."""
    if node.op == "unbind":
        dim = node.arg(1, "dim", 0)
        return [select(value, dim, k) for k in range(value.shape[axis(dim, len(value.shape))])]
    dim = axis(node.arg(2, "dim", 0), len(value.shape))
    parts: list[Value] = []
    start = 0
    for out in node.outputs:
        parts.append(slice_(value, dim, start, start + out.shape[dim]))
        start += out.shape[dim]
    return parts


SPLITS: frozenset[str] = frozenset({"split", "split_with_sizes", "unbind", "unsafe_split", "split_copy", "unbind_copy"})
