"""ATen's reductions, norms and losses, put together from sums, products, maxima and minima over dimensions.

Each number that comes out of a reduction is lazy like every other value: whether it ever lies in memory is decided when
the kernels are planned (rows.py).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cuda_agent.llm.builtin.diagonal import Operand
from cuda_agent.llm.builtin.dtypes import category
from cuda_agent.llm.builtin.expr import Apply, Const, Index, Position, Value, broadcast
from cuda_agent.llm.builtin.graph import Node, Unsupported, numel
from cuda_agent.llm.builtin.pointwise import constant, convert
from cuda_agent.llm.builtin.stage import ReduceFn
from cuda_agent.llm.builtin.views import axis, reshape

FAR = 2**31 - 1
"""A position that no element has."""


class Reducer(Protocol):
    """Reduces a value over dimensions; the result keeps them with size 1."""

    def __call__(self, fn: ReduceFn, value: Value, dims: Sequence[int]) -> Value: ...


@dataclass(frozen=True)
class Reductions:
    """Builds the operations of one lowering."""

    operand: Operand
    reduce: Reducer

    def build(self, node: Node) -> list[Value]:
        """Return the node's outputs.

        Raises:
            Unsupported: a case of the operation that is not covered.
        """
        return REDUCTIONS[node.op](self, node)

    def input(self, node: Node, position: int = 0) -> Value:
        """Return an operand in the arithmetic of the node's first output."""
        value = self.operand(node.arg(position))
        return Value(value.shape, convert(value.expr, node.out.dtype))

    def mean(self, value: Value, dims: Sequence[int]) -> Value:
        """The mean over dimensions, which stay with size 1."""
        count = numel([value.shape[dim] for dim in dims])
        return apply("div", self.reduce("sum", value, dims), number_like(count, value))

    def variance(self, value: Value, dims: Sequence[int], correction: float) -> tuple[Value, Value]:
        """Variance (from the mean, in a second pass over what is then in a cache) and mean."""
        mean = self.mean(value, dims)
        apart = apply("sub", value, mean)
        total = self.reduce("sum", apply("mul", apart, apart), dims)
        count = numel([value.shape[dim] for dim in dims]) - correction
        if count <= 0:
            raise Unsupported("a variance of too few elements")
        return apply("div", total, number_like(count, value)), mean

    def shifted(self, value: Value, dims: Sequence[int]) -> Value:
        """Return value - max."""
        return apply("sub", value, self.reduce("max", value, dims))


def number_like(count: float, value: Value) -> Value:
    """Return a number in a value's arithmetic."""
    return Value((), constant(count, value.dtype))


def apply(fn: str, *values: Value, dtype: str | None = None) -> Value:
    """Apply a function to values broadcast against each other."""
    rank = max(len(value.shape) for value in values)
    padded = [(1,) * (rank - len(value.shape)) + value.shape for value in values]
    shape = tuple(
        max(sizes, key=lambda size: size != 1) if 0 not in sizes else 0 for sizes in zip(*padded, strict=True)
    )
    args = tuple(broadcast(value.expr, value.shape, shape) for value in values)
    return Value(shape, Apply(fn, args, dtype or args[0].dtype))


def dims_of(arg: Any, rank: int) -> list[int]:
    """Return the dimensions that an argument names; all for None and []."""
    if arg is None or arg == []:
        return list(range(rank))
    return sorted(axis(dim, rank) for dim in ([arg] if isinstance(arg, int) else arg))


def fitted(value: Value, node: Node, output: int = 0) -> Value:
    """Return the value in the shape of an output: without the dimensions of size 1 that it does not keep."""
    return reshape(value, list(node.outputs[output].shape))


def _sum(self: Reductions, node: Node) -> list[Value]:
    source = self.operand(node.arg(0))
    dims = dims_of(node.arg(1, "dim"), len(source.shape))
    if source.dtype == "bool" and node.out.dtype == "int64" and numel(source.shape) <= FAR:
        # Counting in the width of most elements keeps the loop in the vector unit.
        counted = self.reduce("sum", Value(source.shape, convert(source.expr, "int32")), dims)
        return [fitted(Value(counted.shape, convert(counted.expr, "int64")), node)]
    return [fitted(self.reduce("sum", self.input(node), dims), node)]


def _mean(self: Reductions, node: Node) -> list[Value]:
    value = self.input(node)
    return [fitted(self.mean(value, dims_of(node.arg(1, "dim"), len(value.shape))), node)]


def _product(self: Reductions, node: Node) -> list[Value]:
    value = self.input(node)
    dims = dims_of(node.arg(1, "dim") if node.overload == "dim_int" else None, len(value.shape))
    return [fitted(self.reduce("prod", value, dims), node)]


def _extreme(fn: ReduceFn) -> "Build":
    """amax, max: the extreme, and where it is for `max.dim`."""

    def build(self: Reductions, node: Node) -> list[Value]:
        if node.overload in ("other", "names_dim"):
            raise Unsupported(f"{node.title}.{node.overload}")
        value = self.input(node)
        if value.dtype == "bool":
            raise Unsupported(f"{node.title} of truth values")
        dims = dims_of(node.arg(1, "dim"), len(value.shape))
        best = self.reduce(fn, value, dims)
        found = [fitted(best, node)]
        if node.overload == "dim":
            found.append(fitted(_place(self, value, best, dims), node, 1))
        return found

    return build


def _arg(fn: ReduceFn) -> "Build":
    """argmax, argmin."""

    def build(self: Reductions, node: Node) -> list[Value]:
        value = self.operand(node.arg(0))
        dims = dims_of(node.arg(1, "dim"), len(value.shape))
        return [fitted(_place(self, value, self.reduce(fn, value, dims), dims), node)]

    return build


def _place(self: Reductions, value: Value, best: Value, dims: list[int]) -> Value:
    """Return the first position over `dims` of what equals `best`, or of the first NaN."""
    count = numel([value.shape[dim] for dim in dims])
    if count > FAR:
        raise Unsupported("positions of more than 31 bits")
    strides = [0] * len(value.shape)
    step = 1
    for dim in reversed(dims):
        strides[dim] = step
        step *= value.shape[dim]
    position = Value(value.shape, convert(Position(Index(0, tuple(strides))), "int32"))
    here = apply("eq", value, best, dtype="bool")
    if category(value.dtype) == 2:
        here = apply("logical_or", here, apply("isnan", value, dtype="bool"))
    candidates = Apply("where", (here.expr, position.expr, Const(FAR, "int32")), "int32")
    first = self.reduce("min", Value(value.shape, candidates), dims)
    return Value(first.shape, convert(first.expr, "int64"))


def _truth(fn: ReduceFn) -> "Build":
    """any, all."""

    def build(self: Reductions, node: Node) -> list[Value]:
        value = self.operand(node.arg(0))
        dims = dims_of(node.arg(1, "dim") if node.overload != "default" else None, len(value.shape))
        number = Value(value.shape, convert(convert(value.expr, "bool"), "int32"))
        found = self.reduce(fn, number, dims)
        return [fitted(Value(found.shape, convert(convert(found.expr, "bool"), node.out.dtype)), node)]

    return build


def _logsumexp(self: Reductions, node: Node) -> list[Value]:
    value = self.input(node)
    dims = dims_of(node.arg(1), len(value.shape))
    top = self.reduce("max", value, dims)
    infinite = apply("isinf", top, dtype="bool")
    top = Value(top.shape, Apply("where", (infinite.expr, constant(0, top.dtype), top.expr), top.dtype))
    total = self.reduce("sum", apply("exp", apply("sub", value, top)), dims)
    return [fitted(apply("add", apply("log", total), top), node)]


def _softmax(self: Reductions, node: Node) -> list[Value]:
    value = self.input(node)
    dims = [axis(node.arg(1), len(value.shape))] if value.shape else []
    power = apply("exp", self.shifted(value, dims))
    return [apply("mul", power, apply("reciprocal", self.reduce("sum", power, dims)))]


def _log_softmax(self: Reductions, node: Node) -> list[Value]:
    value = self.input(node)
    dims = [axis(node.arg(1), len(value.shape))] if value.shape else []
    shifted = self.shifted(value, dims)
    return [apply("sub", shifted, apply("log", self.reduce("sum", apply("exp", shifted), dims)))]


def reduced_loss(self: Reductions, node: Node, elements: Value, reduction: int) -> Value:
    """Return the losses themselves, their mean or their sum (0, 1, 2)."""
    if reduction == 0:
        return elements
    dims = list(range(len(elements.shape)))
    return self.mean(elements, dims) if reduction == 1 else self.reduce("sum", elements, dims)


Build = Callable[[Reductions, Node], list[Value]]
REDUCTIONS: dict[str, Build] = {
    "sum": _sum,
    "mean": _mean,
    "prod": _product,
    "amax": _extreme("max"),
    "amin": _extreme("min"),
    "max": _extreme("max"),
    "min": _extreme("min"),
    "argmax": _arg("max"),
    "argmin": _arg("min"),
    "any": _truth("max"),
    "all": _truth("min"),
    "logsumexp": _logsumexp,
    "_softmax": _softmax,
    "_log_softmax": _log_softmax,
}
