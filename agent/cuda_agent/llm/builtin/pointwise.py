"""ATen's pointwise operations as expressions, with ATen's semantics: promotion, alpha, NaN in max and min, rounding."""

from collections.abc import Callable
from typing import Any

from cuda_agent.llm.builtin.dtypes import Typed, category, result_type
from cuda_agent.llm.builtin.expr import Apply, Const, Expr, Number, Value, broadcast
from cuda_agent.llm.builtin.graph import Node, Shape, Unsupported
from cuda_agent.llm.builtin.views import reshape

Operand = Callable[[Any], Value]
Builder = Callable[[Node, Operand], Expr]


def number(value: Number) -> Value:
    """A Python number as an operand."""
    dtype = "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float32"
    return Value((), Const(value, dtype), wrapped=True)


def convert(expr: Expr, dtype: str) -> Expr:
    """The expression in another dtype's arithmetic (no rounding to half types: those are computed in float)."""
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
    """An explicit cast: half types really lose their bits."""
    if expr.dtype == dtype:
        return expr
    return Apply("round_to", (expr,), dtype) if dtype in ("float16", "bfloat16") else convert(expr, dtype)


def constant(value: Number, dtype: str) -> Expr:
    """A number of that dtype."""
    return Const(_converted(value, dtype), dtype)


def promoted(values: list[Value]) -> str:
    """The dtype in which operands meet."""
    return result_type(Typed(value.dtype, len(value.shape), value.wrapped) for value in values)


def together(values: list[Value], shape: Shape, dtype: str) -> list[Expr]:
    """The operands over one index space, in one dtype."""
    return [convert(broadcast(value.expr, value.shape, shape), dtype) for value in values]


def _unary(fn: str) -> Builder:
    def build(node: Node, operand: Operand) -> Expr:
        (x,) = together([operand(node.arg(0))], node.out.shape, node.out.dtype)
        return Apply(fn, (x,), x.dtype)

    return build


def _rounding(fn: str) -> Builder:
    def build(node: Node, operand: Operand) -> Expr:
        if fn == "round" and (node.arg(1, "decimals", 0) or 0) != 0:
            raise Unsupported("round to decimals")
        (x,) = together([operand(node.arg(0))], node.out.shape, node.out.dtype)
        return x if category(x.dtype) < 2 else Apply(fn, (x,), x.dtype)

    return build


def _binary(fn: str) -> Builder:
    def build(node: Node, operand: Operand) -> Expr:
        pair = [operand(node.arg(0)), operand(node.arg(1))]
        a, b = together(pair, node.out.shape, node.out.dtype)
        return Apply(fn, (a, b), a.dtype)

    return build


def _comparison(fn: str) -> Builder:
    def build(node: Node, operand: Operand) -> Expr:
        pair = [operand(node.arg(0)), operand(node.arg(1))]
        a, b = together(pair, node.out.shape, promoted(pair))
        return convert(Apply(fn, (a, b), "bool"), node.out.dtype)

    return build


def _logical(fn: str) -> Builder:
    def build(node: Node, operand: Operand) -> Expr:
        count = 1 if fn == "logical_not" else 2
        values = together([operand(node.arg(k)) for k in range(count)], node.out.shape, "bool")
        return convert(Apply(fn, tuple(values), "bool"), node.out.dtype)

    return build


def _test(fn: str) -> Builder:
    def build(node: Node, operand: Operand) -> Expr:
        value = operand(node.arg(0))
        if category(value.dtype) < 2:
            return Const(False, "bool")
        return Apply(fn, (broadcast(value.expr, value.shape, node.out.shape),), "bool")

    return build


def _scaled_sum(fn: str, swapped: bool = False) -> Builder:
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


def _divide(node: Node, operand: Operand) -> Expr:
    pair = [operand(node.arg(0)), operand(node.arg(1))]
    a, b = together(pair, node.out.shape, node.out.dtype)
    mode = node.arg(2, "rounding_mode")
    fn = {"floor": "floor_divide", "trunc": "trunc_divide"}.get(str(mode), "div")
    return Apply(fn, (a, b), a.dtype)


def _power(node: Node, operand: Operand) -> Expr:
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


def _where(node: Node, operand: Operand) -> Expr:
    (condition,) = together([operand(node.arg(0))], node.out.shape, "bool")
    a, b = together([operand(node.arg(1)), operand(node.arg(2))], node.out.shape, node.out.dtype)
    return Apply("where", (condition, a, b), a.dtype)


def _masked_fill(node: Node, operand: Operand) -> Expr:
    (mask,) = together([operand(node.arg(1))], node.out.shape, "bool")
    x, fill = together([operand(node.arg(0)), operand(node.arg(2))], node.out.shape, node.out.dtype)
    return Apply("where", (mask, fill, x), x.dtype)


def _clamp(low: int | None, high: int | None) -> Builder:
    def build(node: Node, operand: Operand) -> Expr:
        (x,) = together([operand(node.arg(0))], node.out.shape, node.out.dtype)
        for fn, position, name in (("maximum", low, "min"), ("minimum", high, "max")):
            bound = None if position is None else node.arg(position, name)
            if bound is not None:
                (limit,) = together([operand(bound)], node.out.shape, node.out.dtype)
                x = Apply(fn, (x, limit), x.dtype)
        return x

    return build


def _with_numbers(fn: str, *defaults: tuple[str, Number]) -> Builder:
    """A function of a tensor and Python numbers, the numbers passed to the kernel's function as they are."""

    def build(node: Node, operand: Operand) -> Expr:
        (x,) = together([operand(node.arg(0))], node.out.shape, node.out.dtype)
        numbers = [node.arg(k + 1, name, default) for k, (name, default) in enumerate(defaults)]
        consts = tuple(constant(n, x.dtype) for n in numbers)
        return Apply(fn, (x, *consts), x.dtype)

    return build


def _gelu(node: Node, operand: Operand) -> Expr:
    (x,) = together([operand(node.arg(0))], node.out.shape, node.out.dtype)
    return Apply("gelu_tanh" if node.arg(1, "approximate", "none") == "tanh" else "gelu", (x,), x.dtype)


def _addc(fn: str) -> Builder:
    def build(node: Node, operand: Operand) -> Expr:
        x, a, b = together([operand(node.arg(k)) for k in range(3)], node.out.shape, node.out.dtype)
        scale = node.arg(3, "value", 1)
        part: Expr = Apply(fn, (a, b), x.dtype)
        if scale != 1:
            factor = constant(scale, x.dtype)
            part = Apply(fn, (Apply("mul", (factor, a), x.dtype), b), x.dtype)
        return Apply("add", (x, part), x.dtype)

    return build


def _lerp(node: Node, operand: Operand) -> Expr:
    a, b, weight = together([operand(node.arg(k)) for k in range(3)], node.out.shape, node.out.dtype)
    return Apply("lerp", (a, b, weight), a.dtype)


def _cast(node: Node, operand: Operand) -> Expr:
    value = operand(node.arg(0))
    return rounded(broadcast(value.expr, value.shape, node.out.shape), node.out.dtype)


def _copy(node: Node, operand: Operand) -> Expr:
    value = operand(node.arg(1))
    return rounded(broadcast(value.expr, value.shape, node.out.shape), node.out.dtype)


def _fill(node: Node, operand: Operand) -> Expr:
    return together([operand(node.arg(1))], node.out.shape, node.out.dtype)[0]


def _full(position: int) -> Builder:
    def build(node: Node, _operand: Operand) -> Expr:
        return constant(node.arg(position, "fill_value"), node.out.dtype)

    return build


def _filled(value: int) -> Builder:
    return lambda node, _operand: constant(value, node.out.dtype)


def _batch_norm(weight: int, statistics: int, eps: int) -> Builder:
    """Batch normalisation with running statistics, which is pointwise."""

    def build(node: Node, operand: Operand) -> Expr:
        if node.op == "native_batch_norm" and node.arg(5):
            raise Unsupported("batch normalisation with statistics of the batch")
        shape, dtype = node.out.shape, node.out.dtype
        channels = (1, shape[1]) + (1,) * (len(shape) - 2)

        def channel(position: int) -> Expr:
            value = operand(node.arg(position))
            spread = Value(channels, _per_channel(value, channels))
            return together([spread], shape, dtype)[0]

        (x,) = together([operand(node.arg(0))], shape, dtype)
        variance = Apply("add", (channel(statistics + 1), constant(node.arg(eps), dtype)), dtype)
        scale: Expr = Apply("rsqrt", (variance,), dtype)
        if node.arg(weight) is not None:
            scale = Apply("mul", (scale, channel(weight)), dtype)
        result: Expr = Apply("mul", (Apply("sub", (x, channel(statistics)), dtype), scale), dtype)
        if node.arg(weight + 1) is not None:
            result = Apply("add", (result, channel(weight + 1)), dtype)
        return result

    return build


def _per_channel(value: Value, channels: Shape) -> Expr:
    return reshape(value, list(channels)).expr


def _prelu(node: Node, operand: Operand) -> Expr:
    x, weight = together([operand(node.arg(0)), operand(node.arg(1))], node.out.shape, node.out.dtype)
    positive = Apply("gt", (x, constant(0, x.dtype)), "bool")
    return Apply("where", (positive, x, Apply("mul", (weight, x), x.dtype)), x.dtype)


FLOAT_UNARY = (
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh "
    "asinh acosh atanh erf erfc sigmoid silu mish hardsigmoid hardswish"
).split()
SAME_UNARY = ["abs", "neg", "sign", "relu", "frac", "bitwise_not", "relu6"]
POINTWISE: dict[str, Builder] = {name: _unary(name) for name in [*FLOAT_UNARY, *SAME_UNARY]}
POINTWISE |= {name: _rounding(name) for name in ("floor", "ceil", "round", "trunc")}
POINTWISE |= {
    name: _binary(name)
    for name in (
        "mul maximum minimum fmax fmin atan2 hypot fmod remainder bitwise_and bitwise_or bitwise_xor floor_divide "
        "xlogy logaddexp copysign"
    ).split()
}
POINTWISE |= {name: _comparison(name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
POINTWISE |= {name: _logical(name) for name in ("logical_and", "logical_or", "logical_xor", "logical_not")}
POINTWISE |= {name: _test(name) for name in ("isnan", "isinf", "isfinite", "signbit")}
POINTWISE |= {
    "add": _scaled_sum("add"),
    "sub": _scaled_sum("sub"),
    "rsub": _scaled_sum("sub", swapped=True),
    "div": _divide,
    "true_divide": _divide,
    "pow": _power,
    "square": lambda node, operand: _binary("mul")(_doubled(node), operand),
    "where": _where,
    "masked_fill": _masked_fill,
    "clamp": _clamp(1, 2),
    "clip": _clamp(1, 2),
    "clamp_min": _clamp(1, None),
    "clamp_max": _clamp(None, 1),
    "hardtanh": lambda node, operand: _clamp(1, 2)(_hardtanh(node), operand),
    "leaky_relu": _with_numbers("leaky_relu", ("negative_slope", 0.01)),
    "elu": _with_numbers("elu", ("alpha", 1.0), ("scale", 1.0), ("input_scale", 1.0)),
    "celu": _with_numbers("celu", ("alpha", 1.0)),
    "softplus": _with_numbers("softplus", ("beta", 1.0), ("threshold", 20.0)),
    "hardshrink": _with_numbers("hardshrink", ("lambd", 0.5)),
    "softshrink": _with_numbers("softshrink", ("lambd", 0.5)),
    "threshold": _with_numbers("threshold", ("threshold", 0.0), ("value", 0.0)),
    "gelu": _gelu,
    "log_sigmoid_forward": _unary("log_sigmoid"),
    "addcmul": _addc("mul"),
    "addcdiv": _addc("div"),
    "lerp": _lerp,
    "_prelu_kernel": _prelu,
    "_to_copy": _cast,
    "to": _cast,
    "copy": _copy,
    "fill": _fill,
    "full": _full(1),
    "full_like": _full(1),
    "new_full": _full(2),
    "scalar_tensor": _full(0),
    "native_batch_norm": _batch_norm(1, 3, 7),
    "_native_batch_norm_legit_no_training": _batch_norm(1, 3, 6),
    **{name: _filled(0) for name in ("zeros", "zeros_like", "new_zeros", "zero")},
    **{name: _filled(1) for name in ("ones", "ones_like", "new_ones")},
}


def _doubled(node: Node) -> Node:
    return _with_args(node, (node.args[0], node.args[0]))


def _hardtanh(node: Node) -> Node:
    return _with_args(node, (node.args[0], node.arg(1, "min_val", -1.0), node.arg(2, "max_val", 1.0)))


def _with_args(node: Node, args: tuple[Any, ...]) -> Node:
    return Node(node.id, node.op, node.overload, args, {}, node.outputs, node.mutates)
