"""Products of dense matrices: sums over them are pulled through, so that the product itself is never made.

sum over n of (a * (X @ W)[m, n] + b[n]) = a * (X @ w)[m] + sum(b) with w the row sums of W: the work of a product of
two matrices becomes that of a matrix and a vector. It holds exactly for whatever is linear in the product.
"""

import contextlib
from dataclasses import dataclass

from cuda_agent.llm.builtin.diagonal import Operand
from cuda_agent.llm.builtin.dtypes import category
from cuda_agent.llm.builtin.expr import Apply, Expr, Index, Load, NotAffine, Value, broadcast, depth_first, map_index
from cuda_agent.llm.builtin.graph import Node, Shape, Unsupported
from cuda_agent.llm.builtin.pointwise import constant, convert
from cuda_agent.llm.builtin.reductions import Reducer, apply, number_like
from cuda_agent.llm.builtin.views import reshape, slice_, squeeze, swap, unsqueeze

NARROW = 4
"""With so few rows or columns a product is a sum over rows that reads everything once; blocking gains nothing."""


@dataclass(frozen=True)
class Dense:
    """left[batch, m, k] @ right[batch, k, n]; it stands row-major in the buffer `name`, if it is ever made."""

    name: str
    left: Value
    right: Value

    @property
    def is_narrow(self) -> bool:
        """Whether summing row by row is as good as any product."""
        return is_narrow(self.left, self.right)

    def summed(self, index: Index, shape: Shape, dim: int, reduce: Reducer) -> Value | None:
        """Return the sum over a dimension of what `index` reads of the product, kept with size 1.

        None where that dimension is not all columns or all rows of it.
        """
        (batch, rows, _), columns = self.left.shape, self.right.shape[2]
        if index.offset:
            return None
        others = [(k, size, index.strides[k]) for k, size in enumerate(shape) if k != dim and size != 1]
        if columns > 1 and (index.strides[dim], shape[dim]) == (1, columns):
            steps = _steps(others, unit=columns, inner=rows, outer=batch)
            whole = reduce("sum", self.right, [2])
            terms = apply("mul", self.left, swap(whole, 1, 2))
        elif rows > 1 and (index.strides[dim], shape[dim]) == (columns, rows):
            steps = _steps(others, unit=1, inner=columns, outer=batch, gap=rows * columns)
            whole = reduce("sum", self.left, [1])
            terms = apply("mul", whole, swap(self.right, 1, 2))
        else:
            return None
        if steps is None:
            return None

        def follow(leaf: Index) -> Index:
            pairs = (steps.get(k, (0, 0)) for k in range(len(shape)))
            along = tuple(leaf.strides[0] * outer + leaf.strides[1] * inner for outer, inner in pairs)
            return Index(leaf.offset, (*along, leaf.strides[2]))

        kept = tuple(1 if k == dim else size for k, size in enumerate(shape))
        body = Value((*kept, terms.shape[2]), map_index(terms.expr, follow))
        return squeeze(reduce("sum", body, [len(shape)]), [len(shape)])


def is_narrow(left: Value, right: Value) -> bool:
    """Whether left[batch, m, k] @ right[batch, k, n] has few rows or columns, or no sums."""
    return min(left.shape[1], right.shape[2]) <= NARROW or left.shape[2] <= 1


def _steps(
    dims: list[tuple[int, int, int]], *, unit: int, inner: int, outer: int, gap: int = 0
) -> dict[int, tuple[int, int]] | None:
    """By dimension how far one step goes in the batch, and in the rows (or columns) that are left.

    None where a step is neither, or where several together would go from one matrix into the next.
    """
    gap = gap or unit * inner
    steps: dict[int, tuple[int, int]] = {}
    reach = [0, 0]
    for k, size, stride in dims:
        if stride % unit:
            return None
        far = stride % gap == 0
        steps[k] = (stride // gap, 0) if far else (0, stride // unit)
        reach[0 if far else 1] += max(steps[k]) * (size - 1)
    return steps if reach[0] < outer and reach[1] < inner else None


def factors_of(node: Node, operand: Operand) -> tuple[Value, Value]:
    """Return the two matrices of a product, with a dimension for the batch.

    Raises:
        Unsupported: it is not a product of matrices and vectors of the usual forms.
    """
    first = 1 if node.op in ("addmm", "addmv", "baddbmm") else 0
    left, right = operand(node.arg(first)), operand(node.arg(first + 1))
    if node.op == "linear":
        right = swap(right, 0, 1)
    if node.op in ("mv", "addmv"):
        right = unsqueeze(right, 1)
    if node.op in ("dot", "vdot"):
        left, right = unsqueeze(left, 0), unsqueeze(right, 1)
    ranks = len(left.shape), len(right.shape)
    if ranks == (2, 2):
        return unsqueeze(left, 0), unsqueeze(right, 0)
    if ranks != (3, 3):
        raise Unsupported(f"{node.title} of two dense matrices")
    if not depends(right.expr, 0):
        with contextlib.suppress(NotAffine):
            return reshape(left, [1, -1, left.shape[2]]), slice_(right, 0, 0, 1)
    return left, right


def with_rest(node: Node, operand: Operand, product: Value) -> Value:
    """Return what a node adds to its product, and in which shape."""
    shape, dtype = node.out.shape, node.out.dtype
    product = reshape(product, list(shape))
    if node.op in ("addmm", "addmv", "baddbmm"):
        beta, alpha = node.arg(3, "beta", 1), node.arg(4, "alpha", 1)
        addend, scale = operand(node.arg(0)), alpha
    elif node.op == "linear" and node.arg(2, "bias") is not None:
        beta, addend, scale = 1, operand(node.arg(2, "bias")), 1
    else:
        return product
    expr = product.expr if scale == 1 else Apply("mul", (product.expr, constant(scale, dtype)), dtype)
    if beta == 0:
        return Value(shape, expr)
    bias: Expr = convert(broadcast(addend.expr, addend.shape, shape), dtype)
    if beta != 1:
        bias = Apply("mul", (bias, constant(beta, dtype)), dtype)
    return Value(shape, Apply("add", (expr, bias), dtype))


@dataclass(frozen=True)
class Linear:
    """factor * product + rest; None stands for one, and for nothing."""

    load: Load
    factor: Expr | None
    rest: Expr | None


def linear_in(expr: Expr, names: frozenset[str]) -> Linear | None:
    """Return an expression as a linear function of an element of a product; None where it is not one."""
    if isinstance(expr, Load) and expr.source in names:
        return Linear(expr, None, None)
    if not isinstance(expr, Apply) or category(expr.dtype) != 2:
        return None
    inside = [linear_in(arg, names) for arg in expr.args]
    places = [place for place, arg in enumerate(expr.args) if reads(arg, names)]
    if len(places) != 1 or inside[places[0]] is None:
        return None
    return _outer(expr, places[0], inside[places[0]])


def _outer(expr: Apply, place: int, inner: Linear | None) -> Linear | None:
    if inner is None:
        return None
    other = expr.args[1 - place] if len(expr.args) == 2 else None
    dtype = expr.dtype

    def times(fn: str, part: Expr | None) -> Expr:
        one = constant(1, dtype) if part is None else part
        return Apply(fn, (one,) if other is None else (one, other), dtype)

    if expr.fn == "convert":
        return inner if category(inner.load.dtype) == 2 else None
    if expr.fn == "neg" or (expr.fn in ("mul", "div") and (place == 0 or expr.fn == "mul")):
        return Linear(
            inner.load, times(expr.fn, inner.factor), None if inner.rest is None else times(expr.fn, inner.rest)
        )
    if expr.fn not in ("add", "sub") or other is None:
        return None
    rest, factor = other, inner.factor
    if expr.fn == "sub" and place == 1:
        factor = Apply("neg", (constant(1, dtype) if factor is None else factor,), dtype)
        rest = other if inner.rest is None else Apply("sub", (other, inner.rest), dtype)
    elif inner.rest is not None:
        rest = Apply(expr.fn, (inner.rest, other), dtype)
    elif expr.fn == "sub":
        rest = Apply("neg", (other,), dtype)
    return Linear(inner.load, factor, rest)


def reads(expr: Expr, names: frozenset[str]) -> bool:
    """Whether an expression reads one of these buffers."""
    return any(isinstance(node, Load) and node.source in names for node in depth_first([expr]))


def pulled_sum(value: Value, dim: int, products: dict[str, Dense], reduce: Reducer) -> Value | None:
    """Return the sum over a dimension with the sum pulled through a product; None where that does not hold."""
    found = linear_in(value.expr, frozenset(products))
    if found is None or depends(found.factor, dim):
        return None
    dense = products[found.load.source]
    total = dense.summed(found.load.index, value.shape, dim, reduce)
    if total is None:
        return None
    total = Value(total.shape, convert(total.expr, value.dtype))
    kept = tuple(1 if k == dim else size for k, size in enumerate(value.shape))
    if found.factor is not None:
        total = apply("mul", total, Value(kept, found.factor))
    if found.rest is None:
        return total
    if depends(found.rest, dim):
        return apply("add", total, reduce("sum", Value(value.shape, found.rest), [dim]))
    rest = Value(kept, found.rest)
    return apply("add", total, apply("mul", rest, number_like(value.shape[dim], rest)))


def depends(expr: Expr | None, dim: int) -> bool:
    """Whether an expression differs along a dimension."""
    if expr is None:
        return False
    return any(node.index.strides[dim] for node in depth_first([expr]) if hasattr(node, "index"))
