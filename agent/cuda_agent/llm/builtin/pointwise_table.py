"""Every pointwise operation by name, and those that are built of several."""

from typing import Any

from cuda_agent.llm.builtin.expr import Apply, Expr, Value
from cuda_agent.llm.builtin.graph import Node, Shape, Unsupported
from cuda_agent.llm.builtin.pointwise import (
    Builder,
    Operand,
    addc,
    binary,
    cast,
    clamp,
    comparison,
    constant,
    copy,
    divide,
    fill,
    filled,
    full,
    gelu,
    lerp,
    logical,
    masked_fill,
    power,
    rounding,
    scaled_sum,
    test,
    together,
    unary,
    where,
    with_numbers,
)
from cuda_agent.llm.builtin.views import reshape


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


_FLOAT_UNARY = (
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh "
    "asinh acosh atanh erf erfc sigmoid silu mish hardsigmoid hardswish"
)
_BINARY = (
    "mul maximum minimum fmax fmin atan2 hypot fmod remainder bitwise_and bitwise_or bitwise_xor floor_divide "
    "xlogy logaddexp copysign"
)
_SAME_UNARY = ["abs", "neg", "sign", "relu", "frac", "bitwise_not", "relu6"]
POINTWISE: dict[str, Builder] = {name: unary(name) for name in [*_FLOAT_UNARY.split(), *_SAME_UNARY]}
POINTWISE |= {name: rounding(name) for name in ("floor", "ceil", "round", "trunc")}
POINTWISE |= {name: binary(name) for name in _BINARY.split()}
POINTWISE |= {name: comparison(name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
POINTWISE |= {name: logical(name) for name in ("logical_and", "logical_or", "logical_xor", "logical_not")}
POINTWISE |= {name: test(name) for name in ("isnan", "isinf", "isfinite", "signbit")}
POINTWISE |= {
    "add": scaled_sum("add"),
    "sub": scaled_sum("sub"),
    "rsub": scaled_sum("sub", swapped=True),
    "div": divide,
    "true_divide": divide,
    "pow": power,
    "square": lambda node, operand: binary("mul")(_doubled(node), operand),
    "where": where,
    "masked_fill": masked_fill,
    "clamp": clamp(1, 2),
    "clip": clamp(1, 2),
    "clamp_min": clamp(1, None),
    "clamp_max": clamp(None, 1),
    "hardtanh": lambda node, operand: clamp(1, 2)(_hardtanh(node), operand),
    "leaky_relu": with_numbers("leaky_relu", ("negative_slope", 0.01)),
    "elu": with_numbers("elu", ("alpha", 1.0), ("scale", 1.0), ("input_scale", 1.0)),
    "celu": with_numbers("celu", ("alpha", 1.0)),
    "softplus": with_numbers("softplus", ("beta", 1.0), ("threshold", 20.0)),
    "hardshrink": with_numbers("hardshrink", ("lambd", 0.5)),
    "softshrink": with_numbers("softshrink", ("lambd", 0.5)),
    "threshold": with_numbers("threshold", ("threshold", 0.0), ("value", 0.0)),
    "gelu": gelu,
    "log_sigmoid_forward": unary("log_sigmoid"),
    "addcmul": addc("mul"),
    "addcdiv": addc("div"),
    "lerp": lerp,
    "_prelu_kernel": _prelu,
    "_to_copy": cast,
    "to": cast,
    "copy": copy,
    "fill": fill,
    "full": full(1),
    "full_like": full(1),
    "new_full": full(2),
    "scalar_tensor": full(0),
    "native_batch_norm": _batch_norm(1, 3, 7),
    "_native_batch_norm_legit_no_training": _batch_norm(1, 3, 6),
    **{name: filled(0) for name in ("zeros", "zeros_like", "new_zeros", "zero")},
    **{name: filled(1) for name in ("ones", "ones_like", "new_ones")},
}


def _doubled(node: Node) -> Node:
    return _with_args(node, (node.args[0], node.args[0]))


def _hardtanh(node: Node) -> Node:
    return _with_args(node, (node.args[0], node.arg(1, "min_val", -1.0), node.arg(2, "max_val", 1.0)))


def _with_args(node: Node, args: tuple[Any, ...]) -> Node:
    return Node(node.id, node.op, node.overload, args, {}, node.outputs, node.mutates)
