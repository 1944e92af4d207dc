"""ATen's pointwise operations as expressions, with ATen's semantics: promotion, alpha, NaN in max and min, rounding."""

from collections.abc import Callable
from typing import Any

from cuda_agent.llm.builtin.dtypes import Typed, category, result_type
from cuda_agent.llm.builtin.expr import Apply, Const, Expr, Number, Value, broadcast
from cuda_agent.llm.builtin.graph import Node, Shape, Unsupported

Operand = Callable[[Any], Value]
Builder = Callable[[Node, Operand], Expr]


def number(value: Number) -> Value:
    """Return a Python number as an operand."""
    dtype = "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float32"
    return Value((), Const(value, dtype), wrapped=True)


def convert(expr: Expr, dtype: str) -> Expr:
    """Return the expression in another dtype's arithmetic (no rounding to half types: those are computed in float)."""
    if expr.dtype == dtype:
        return expr
    if isinstance(expr, Const):
        return Const(_converted(expr.value, dtype), dtype)
    return Apply("convert", (expr,), dtype)


def _converted(value: Number, dtype: str) -> Number:
    kind = category(dtype)
    if kind == 2:
        return float(value)
    return bool(value) if kind == 0 else int(value)


def rounded(expr: Expr, dtype: str) -> Expr:
    """Return an explicit cast: half types really lose their bits."""
    if expr.dtype == dtype:
        return expr
    return Apply("round_to", (expr,), dtype) if dtype in ("float16", "bfloat16") else convert(expr, dtype)


def constant(value: Number, dtype: str) -> Expr:
    """Return a number of that dtype."""
    return Const(_converted(value, dtype), dtype)


def promoted(values: list[Value]) -> str:
    """Return the dtype in which operands meet."""
    return result_type(Typed(value.dtype, len(value.shape), value.wrapped) for value in values)


def together(values: list[Value], shape: Shape, dtype: str) -> list[Expr]:
    """Return the operands over one index space, in one dtype."""
    return [convert(broadcast(value.expr, value.shape, shape), dtype) for value in values]


def unary(fn: str) -> Builder:
    """Build: a function of one tensor."""

    def build(node: Node, operand: Operand) -> Expr:
        (x,) = together([operand(node.arg(0))], node.out.shape, node.out.dtype)
        return Apply(fn, (x,), x.dtype)

    return build


def rounding(fn: str) -> Builder:
    """Build: a function that leaves integers as they are."""

    def build(node: Node, operand: Operand) -> Expr:
        if fn == "round" and (node.arg(1, "decimals", 0) or 0) != 0:
            raise Unsupported("round to decimals")
        (x,) = together([operand(node.arg(0))], node.out.shape, node.out.dtype)
        return x if category(x.dtype) < 2 else Apply(fn, (x,), x.dtype)

    return build


def binary(fn: str) -> Builder:
    """Build: a function of two operands in the dtype of the result."""

    def build(node: Node, operand: Operand) -> Expr:
        pair = [operand(node.arg(0)), operand(node.arg(1))]
        a, b = together(pair, node.out.shape, node.out.dtype)
        return Apply(fn, (a, b), a.dtype)

    return build


def comparison(fn: str) -> Builder:
    """Build: a comparison in the dtype where both operands meet."""

    def build(node: Node, operand: Operand) -> Expr:
        pair = [operand(node.arg(0)), operand(node.arg(1))]
        a, b = together(pair, node.out.shape, promoted(pair))
        return convert(Apply(fn, (a, b), "bool"), node.out.dtype)

    return build


def logical(fn: str) -> Builder:
    """Build: a function of truth values."""

    def build(node: Node, operand: Operand) -> Expr:
        count = 1 if fn == "logical_not" else 2
        values = together([operand(node.arg(k)) for k in range(count)], node.out.shape, "bool")
        return convert(Apply(fn, tuple(values), "bool"), node.out.dtype)

    return build


def test(fn: str) -> Builder:
    """Build: a question that only floating numbers can answer with yes."""

    def build(node: Node, operand: Operand) -> Expr:
        value = operand(node.arg(0))
        if category(value.dtype) < 2:
            return Const(False, "bool")
        return Apply(fn, (broadcast(value.expr, value.shape, node.out.shape),), "bool")

    return build


def scaled_sum(fn: str, swapped: bool = False) -> Builder:
    """Build: sum or difference with the second operand times alpha."""

    def build(node: Node, operand: Operand) -> Expr:
        pair = [operand(node.arg(0)), operand(node.arg(1))]
        a, b = together(pair, node.out.shape, node.out.dtype)
        if swapped:
            a, b = b, a
        alpha = node.arg(2, "alpha", 1)
        if alpha != 1:
            factor = constant(alpha, b.dtype)
            b = Apply("mul", (b, factor), b.dtype)
        return Apply(fn, (a, b), a.dtype)

    return build


def divide(node: Node, operand: Operand) -> Expr:
    """Build: division with its rounding mode."""
    pair = [operand(node.arg(0)), operand(node.arg(1))]
    a, b = together(pair, node.out.shape, node.out.dtype)
    mode = node.arg(2, "rounding_mode")
    fn = {"floor": "floor_divide", "trunc": "trunc_divide"}.get(str(mode), "div")
    return Apply(fn, (a, b), a.dtype)


def power(node: Node, operand: Operand) -> Expr:
    """Build: power, by products and roots where the exponent is a small constant."""
    pair = [operand(node.arg(0)), operand(node.arg(1))]
    base, exponent = together(pair, node.out.shape, node.out.dtype)
    if isinstance(exponent, Const):
        special = _power_by(base, exponent.value)
        if special is not None:
            return special
    return Apply("pow", (base, exponent), base.dtype)


def _power_by(base: Expr, exponent: Number) -> Expr | None:
    dtype = base.dtype
    if exponent in (0, 1):
        return Const(_converted(1, dtype), dtype) if exponent == 0 else base
    if exponent in (2, 3, 4):
        square = Apply("mul", (base, base), dtype)
        if exponent == 2:
            return square
        return Apply("mul", (square, base if exponent == 3 else square), dtype)
    if category(dtype) < 2:
        return None
    if exponent in (-1, -2):
        return Apply("reciprocal", (base if exponent == -1 else Apply("mul", (base, base), dtype),), dtype)
    if exponent in (0.5, -0.5):
        return Apply("sqrt" if exponent > 0 else "rsqrt", (base,), dtype)
    return None


def where(node: Node, operand: Operand) -> Expr:
    """Build: a choice between two operands."""
    (condition,) = together([operand(node.arg(0))], node.out.shape, "bool")
    a, b = together([operand(node.arg(1)), operand(node.arg(2))], node.out.shape, node.out.dtype)
    return Apply("where", (condition, a, b), a.dtype)


def masked_fill(node: Node, operand: Operand) -> Expr:
    """Build: a number wherever the mask is set."""
    (mask,) = together([operand(node.arg(1))], node.out.shape, "bool")
    x, fill = together([operand(node.arg(0)), operand(node.arg(2))], node.out.shape, node.out.dtype)
    return Apply("where", (mask, fill, x), x.dtype)


def clamp(low: int | None, high: int | None) -> Builder:
    """Build: bounds from the arguments at two positions; NaN comes through."""

    def build(node: Node, operand: Operand) -> Expr:
        (x,) = together([operand(node.arg(0))], node.out.shape, node.out.dtype)
        for fn, position, name in (("maximum", low, "min"), ("minimum", high, "max")):
            bound = None if position is None else node.arg(position, name)
            if bound is not None:
                (limit,) = together([operand(bound)], node.out.shape, node.out.dtype)
                x = Apply(fn, (x, limit), x.dtype)
        return x

    return build


def with_numbers(fn: str, *defaults: tuple[str, Number]) -> Builder:
    """Return a function of a tensor and Python numbers, the numbers passed to the kernel's function as they are."""

    def build(node: Node, operand: Operand) -> Expr:
        (x,) = together([operand(node.arg(0))], node.out.shape, node.out.dtype)
        numbers = [node.arg(k + 1, name, default) for k, (name, default) in enumerate(defaults)]
        consts = tuple(constant(n, x.dtype) for n in numbers)
        return Apply(fn, (x, *consts), x.dtype)

    return build


def gelu(node: Node, operand: Operand) -> Expr:
    """Build: GELU, exact or by tanh."""
    (x,) = together([operand(node.arg(0))], node.out.shape, node.out.dtype)
    return Apply("gelu_tanh" if node.arg(1, "approximate", "none") == "tanh" else "gelu", (x,), x.dtype)


def addc(fn: str) -> Builder:
    """Build: a product or quotient of two operands, scaled and added to a third."""

    def build(node: Node, operand: Operand) -> Expr:
        x, a, b = together([operand(node.arg(k)) for k in range(3)], node.out.shape, node.out.dtype)
        scale = node.arg(3, "value", 1)
        part: Expr = Apply(fn, (a, b), x.dtype)
        if scale != 1:
            factor = constant(scale, x.dtype)
            part = Apply(fn, (Apply("mul", (factor, a), x.dtype), b), x.dtype)
        return Apply("add", (x, part), x.dtype)

    return build


def lerp(node: Node, operand: Operand) -> Expr:
    """Build: linear interpolation."""
    a, b, weight = together([operand(node.arg(k)) for k in range(3)], node.out.shape, node.out.dtype)
    return Apply("lerp", (a, b, weight), a.dtype)


def cast(node: Node, operand: Operand) -> Expr:
    """Build: an explicit cast."""
    value = operand(node.arg(0))
    return rounded(broadcast(value.expr, value.shape, node.out.shape), node.out.dtype)


def copy(node: Node, operand: Operand) -> Expr:
    """Build: what is copied into a tensor takes its dtype and shape."""
    value = operand(node.arg(1))
    return rounded(broadcast(value.expr, value.shape, node.out.shape), node.out.dtype)


def fill(node: Node, operand: Operand) -> Expr:
    """Build: a tensor of one number."""
    return together([operand(node.arg(1))], node.out.shape, node.out.dtype)[0]


def full(position: int) -> Builder:
    """Build: a tensor of the number at a position of the arguments."""

    def build(node: Node, _operand: Operand) -> Expr:
        return constant(node.arg(position, "fill_value"), node.out.dtype)

    return build


def filled(value: int) -> Builder:
    """Build: a tensor of this number."""
    return lambda node, _operand: constant(value, node.out.dtype)
