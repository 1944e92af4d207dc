"""Expressions over an index space: what one element of a value is, as a DAG of loads, constants and functions."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from cuda_agent.llm.builtin.graph import Shape, Unsupported, dense_strides, numel

Number = int | float | bool


@dataclass(frozen=True)
class Index:
    """An affine map from an index tuple to a position: offset + sum(strides * index)."""

    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Load:
    """An element of a buffer."""

    source: str
    dtype: str
    index: Index


@dataclass(frozen=True, eq=False)
class Position:
    """The value of an affine map itself (arange, the comparison behind tril, ...), an int64."""

    index: Index
    dtype: str = "int64"


@dataclass(frozen=True, eq=False)
class Const:
    """A number of a dtype."""

    value: Number
    dtype: str


@dataclass(frozen=True, eq=False)
class Apply:
    """A function of expressions; `dtype` is the result's."""

    fn: str
    args: "tuple[Expr, ...]"
    dtype: str


Expr = Load | Position | Const | Apply


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor that has not been computed: its shape and what one element is."""

    shape: Shape
    expr: Expr
    wrapped: bool = False
    """A Python number: it takes part in type promotion as one."""
    diagonal: Expr | None = None
    """Where the last two dimensions are known to be a square diagonal matrix: its diagonal, over shape[:-1]."""

    @property
    def dtype(self) -> str:
        """The dtype of its elements."""
        return self.expr.dtype


class NotAffine(Exception):
    """A view cannot be said as an affine map of the leaves; the value must be written to memory first."""


def rewriting(rule: "Callable[[Expr], Expr | None]") -> "Callable[[Expr], Expr]":
    """Return what replaces each node of an expression by what the rule gives for it, or else rewrites its parts.

    Shared parts stay shared, from one expression to the next too, and what does not change stays the same object.
    """
    memo: dict[int, Expr] = {}

    def visit(node: Expr) -> Expr:
        if id(node) not in memo:
            memo[id(node)] = rebuild(node)
        return memo[id(node)]

    def rebuild(node: Expr) -> Expr:
        if (given := rule(node)) is not None:
            return given
        if not isinstance(node, Apply):
            return node
        args = tuple(visit(arg) for arg in node.args)
        return node if all(a is b for a, b in zip(args, node.args, strict=True)) else replace(node, args=args)

    return visit


def map_leaves(expr: Expr, change: "Callable[[Load | Position], Expr]") -> Expr:
    """Return the same expression with each element and position replaced."""
    return rewriting(lambda node: None if isinstance(node, Apply | Const) else change(node))(expr)


def map_index(expr: Expr, change: Callable[[Index], Index]) -> Expr:
    """Return the same expression with each leaf's index map changed."""
    return map_leaves(expr, lambda leaf: replace(leaf, index=change(leaf.index)))


def depth_first(roots: list[Expr]) -> list[Expr]:
    """Every expression below `roots` once, arguments before their users."""
    seen: set[int] = set()
    order: list[Expr] = []
    stack: list[tuple[Expr, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
            continue
        if id(node) in seen:
            continue
        seen.add(id(node))
        stack.append((node, True))
        if isinstance(node, Apply):
            stack.extend((arg, False) for arg in reversed(node.args))
    return order


def broadcast(expr: Expr, shape: Shape, target: Shape) -> Expr:
    """Read `expr` of `shape` with an index of `target`, by torch's rules."""
    if shape == target:
        return expr
    lead = len(target) - len(shape)
    if lead < 0 or any(a not in (1, b) for a, b in zip(shape, target[lead:], strict=True)):
        raise Unsupported(f"broadcast {list(shape)} to {list(target)}")

    def change(index: Index) -> Index:
        kept = tuple(0 if size == 1 else stride for size, stride in zip(shape, index.strides, strict=True))
        return Index(index.offset, (0,) * lead + kept)

    return map_index(expr, change)


def reshaped(index: Index, old: Shape, new: Shape) -> Index:
    """Return the index map of a view, by the rule that torch's `view` follows.

    Raises:
        NotAffine: the dimensions to be merged do not lie one behind the other.
    """
    if numel(old) == 0:
        return Index(index.offset, dense_strides(new))
    pairs = [(size, stride) for size, stride in zip(old, index.strides, strict=True) if size != 1]
    runs: list[list[int]] = []
    for size, stride in pairs:
        if runs and runs[-1][1] == stride * size:
            runs[-1] = [runs[-1][0] * size, stride]
        else:
            runs.append([size, stride])
    strides = [0] * len(new)
    position = len(new) - 1
    for size, stride in reversed(runs):
        position = _split_run(size, stride, new, strides, position)
    return Index(index.offset, tuple(strides))


def _split_run(size: int, stride: int, new: Shape, strides: list[int], position: int) -> int:
    covered = 1
    while covered < size:
        while position >= 0 and new[position] == 1:
            position -= 1
        if position < 0 or size % (covered * new[position]):
            raise NotAffine
        strides[position] = stride * covered
        covered *= new[position]
        position -= 1
    return position
