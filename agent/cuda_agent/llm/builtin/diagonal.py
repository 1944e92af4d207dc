"""Matrices known to be diagonal, and the products that they turn into a scaling of rows or columns."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cuda_agent.llm.builtin.expr import Apply, Const, Expr, Index, Position, Value, broadcast
from cuda_agent.llm.builtin.graph import Node, Shape, Unsupported
from cuda_agent.llm.builtin.pointwise import constant, convert
from cuda_agent.llm.builtin.pointwise_table import POINTWISE
from cuda_agent.llm.builtin.views import axis, diagonal, swap, unsqueeze

Operand = Callable[[Any], Value]

PRODUCTS = frozenset({"mm", "bmm", "matmul", "mv", "addmm", "baddbmm", "addmv", "linear", "dot", "vdot"})
_KEEPS_ZERO = (
    "neg abs relu sign sqrt tanh sin tan asin atan sinh erf silu gelu mish _to_copy to hardswish relu6 leaky_relu "
    "floor ceil round trunc expm1 log1p elu celu square"
)
KEEPS_ZERO = frozenset(_KEEPS_ZERO.split())
"""Functions f of one tensor with f(0) = 0: a diagonal matrix stays one."""


def embed(vector: Value, shape: Shape, first: int, second: int) -> Value:
    """diag_embed without an offset: `vector`'s last dimension spread over the diagonal of two dimensions."""
    rank = len(shape)
    first, second = sorted((axis(first, rank), axis(second, rank)))
    if (first, second) != (rank - 2, rank - 1):
        raise Unsupported("diag_embed into dimensions other than the last two")
    spread = unsqueeze(vector, -1)
    expr = broadcast(spread.expr, spread.shape, shape)
    on = on_diagonal(rank)
    return Value(shape, Apply("where", (on, expr, constant(0, expr.dtype)), expr.dtype), diagonal=vector.expr)


def on_diagonal(rank: int) -> Expr:
    """Whether the last two indices are equal."""
    return Apply("eq", (_position(rank, rank - 2), _position(rank, rank - 1)), "bool")


def _position(rank: int, dim: int, offset: int = 0) -> Expr:
    return Position(Index(offset, tuple(int(k == dim) for k in range(rank))))


def identity(shape: Shape, dtype: str) -> Value:
    """eye(n, m)."""
    one = Const(1, dtype) if dtype != "bool" else Const(True, dtype)
    expr = Apply("where", (on_diagonal(2), one, constant(0, dtype)), dtype)
    return Value(shape, expr, diagonal=one if shape[0] == shape[1] else None)


def triangle(value: Value, node: Node) -> Value:
    """Do tril or triu."""
    rank = len(value.shape)
    row, column = _position(rank, rank - 2, node.arg(1, "diagonal", 0)), _position(rank, rank - 1)
    fn = "ge" if node.op == "tril" else "le"
    kept = Apply(fn, (row, column), "bool")
    return Value(value.shape, Apply("where", (kept, value.expr, constant(0, value.dtype)), value.dtype))


def diagonal_after(node: Node, operand: Operand) -> Expr | None:
    """Return the diagonal of a pointwise result where it is again a diagonal matrix, else None."""
    shape = node.out.shape
    if len(shape) < 2 or shape[-1] != shape[-2] or not _keeps_zeros(node, operand, shape):
        return None

    def on_the_diagonal(arg: Any) -> Value:
        value = operand(arg)
        if not value.shape:
            return value
        if value.diagonal is not None and value.shape[-2:] == shape[-2:]:
            return Value(value.shape[:-1], value.diagonal)
        whole = Value(shape, broadcast(value.expr, value.shape, shape))
        return diagonal(whole, 0, -2, -1)

    reduced = replace(node, outputs=(replace(node.out, shape=shape[:-1]),))
    return POINTWISE[node.op](reduced, on_the_diagonal)


def _keeps_zeros(node: Node, operand: Operand, shape: Shape) -> bool:
    def is_diagonal(position: int) -> bool:
        value = operand(node.arg(position))
        return value.diagonal is not None and value.shape[-2:] == shape[-2:]

    if node.op == "mul":
        return is_diagonal(0) or is_diagonal(1)
    if node.op in ("add", "sub"):
        return is_diagonal(0) and is_diagonal(1)
    return (node.op == "div" or node.op in KEEPS_ZERO) and is_diagonal(0)


def product(node: Node, operand: Operand) -> Value:
    """Return a matrix product with a diagonal factor.

    Raises:
        Unsupported: both factors are dense.
    """
    if node.op in ("addmm", "baddbmm", "addmv"):
        return _with_addend(node, operand)
    left, right = operand(node.arg(0)), operand(node.arg(1))
    if node.op == "linear":
        return _linear(node, operand, left, swap(right, 0, 1) if len(right.shape) == 2 else right)
    return _scaled(node, left, right)


def _with_addend(node: Node, operand: Operand) -> Value:
    shape, dtype = node.out.shape, node.out.dtype
    scaled: Expr = _scaled(node, operand(node.arg(1)), operand(node.arg(2))).expr
    beta, alpha = node.arg(3, "beta", 1), node.arg(4, "alpha", 1)
    if alpha != 1:
        scaled = Apply("mul", (scaled, constant(alpha, dtype)), dtype)
    if beta == 0:
        return Value(shape, scaled)
    addend = operand(node.arg(0))
    bias: Expr = convert(broadcast(addend.expr, addend.shape, shape), dtype)
    if beta != 1:
        bias = Apply("mul", (bias, constant(beta, dtype)), dtype)
    return Value(shape, Apply("add", (scaled, bias), dtype))


def _linear(node: Node, operand: Operand, left: Value, right: Value) -> Value:
    result = _scaled(node, left, right)
    if node.arg(2, "bias") is None:
        return result
    bias = operand(node.arg(2, "bias"))
    shape, dtype = node.out.shape, node.out.dtype
    return Value(shape, Apply("add", (result.expr, broadcast(bias.expr, bias.shape, shape)), dtype))


def _scaled(node: Node, left: Value, right: Value) -> Value:
    shape, dtype = node.out.shape, node.out.dtype
    vector = len(right.shape) == 1
    if left.diagonal is not None and left.shape[-1] == right.shape[0 if vector else -2]:
        factor = Value(left.shape[:-1], left.diagonal)
        factor = factor if vector else unsqueeze(factor, -1)
        other = right
    elif right.diagonal is not None and not vector:
        factor = unsqueeze(Value(right.shape[:-1], right.diagonal), -2)
        factor = Value((*right.shape[:-2], 1, right.shape[-1]), factor.expr)
        if len(left.shape) == 1:
            factor = Value((right.shape[-1],), right.diagonal)
        other = left
    else:
        raise Unsupported(f"{node.title} of two dense matrices")
    pair = [convert(broadcast(v.expr, v.shape, shape), dtype) for v in (factor, other)]
    if left.diagonal is None:
        pair.reverse()
    both = None
    if left.diagonal is not None and right.diagonal is not None:
        both = _both(left, right, shape, dtype)
    return Value(shape, Apply("mul", (pair[0], pair[1]), dtype), diagonal=both)


def _both(left: Value, right: Value, shape: Shape, dtype: str) -> Expr:
    first, second = left.diagonal, right.diagonal
    assert first is not None
    assert second is not None
    a = convert(broadcast(first, left.shape[:-1], shape[:-1]), dtype)
    b = convert(broadcast(second, right.shape[:-1], shape[:-1]), dtype)
    return Apply("mul", (a, b), dtype)
