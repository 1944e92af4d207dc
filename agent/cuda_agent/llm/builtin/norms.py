"""ATen's norms and variances: the mean first, then what is apart from it, while the row is in a cache."""

import math

from cuda_agent.llm.builtin.expr import Value
from cuda_agent.llm.builtin.graph import Node, Unsupported
from cuda_agent.llm.builtin.pointwise import convert
from cuda_agent.llm.builtin.reductions import Build, Reductions, apply, dims_of, fitted, number_like
from cuda_agent.llm.builtin.views import reshape


def _inverse_deviation(variance: Value, eps: float) -> Value:
    return apply("rsqrt", apply("add", variance, number_like(eps, variance)))


def _affine(value: Value, weight: Value | None, bias: Value | None) -> Value:
    for fn, factor in (("mul", weight), ("add", bias)):
        if factor is not None:
            value = apply(fn, value, Value(factor.shape, convert(factor.expr, value.dtype)))
    return value


def _optional(self: Reductions, node: Node, position: int) -> Value | None:
    return None if node.arg(position) is None else self.operand(node.arg(position))


def _layer_norm(self: Reductions, node: Node) -> list[Value]:
    value = self.input(node)
    rank = len(value.shape)
    dims = list(range(rank - len(node.arg(1)), rank))
    variance, mean = self.variance(value, dims, 0)
    deviation = _inverse_deviation(variance, node.arg(4))
    result = apply("mul", apply("sub", value, mean), deviation)
    return [_affine(result, _optional(self, node, 2), _optional(self, node, 3)), mean, deviation]


def _group_norm(self: Reductions, node: Node) -> list[Value]:
    value = self.input(node)
    batch, channels, rest, groups = (node.arg(k) for k in (3, 4, 5, 6))
    split = reshape(value, [batch, groups, channels // groups, rest])
    variance, mean = self.variance(split, [2, 3], 0)
    deviation = _inverse_deviation(variance, node.arg(7))
    factors = [_optional(self, node, k) for k in (1, 2)]
    spread = [None if f is None else reshape(f, [1, groups, channels // groups, 1]) for f in factors]
    result = _affine(apply("mul", apply("sub", split, mean), deviation), *spread)
    return [result, fitted(mean, node, 1), fitted(deviation, node, 2)]


def _instance_norm(self: Reductions, node: Node) -> list[Value]:
    """Do batch normalisation with statistics of the batch, where no running ones are kept."""
    if node.arg(3) is not None or node.arg(4) is not None:
        raise Unsupported("batch normalisation that updates running statistics")
    value = self.input(node)
    dims = [dim for dim in range(len(value.shape)) if dim != 1]
    variance, mean = self.variance(value, dims, 0)
    deviation = _inverse_deviation(variance, node.arg(7))
    result = apply("mul", apply("sub", value, mean), deviation)
    channels = [1, value.shape[1]] + [1] * (len(value.shape) - 2)
    factors = [_optional(self, node, k) for k in (1, 2)]
    result = _affine(result, *(None if f is None else reshape(f, channels) for f in factors))
    return [result, fitted(mean, node, 1), fitted(deviation, node, 2)]


def _variance(root: bool, with_mean: bool) -> Build:
    """var, std, var_mean, std_mean."""

    def build(self: Reductions, node: Node) -> list[Value]:
        value = self.input(node)
        correction = node.arg(2, "correction")
        spread, mean = self.variance(
            value, dims_of(node.arg(1, "dim"), len(value.shape)), 1 if correction is None else correction
        )
        if root:
            spread = apply("sqrt", spread)
        return [fitted(spread, node), fitted(mean, node, 1)] if with_mean else [fitted(spread, node)]

    return build


def _norm(self: Reductions, node: Node) -> list[Value]:
    """linalg_vector_norm and norm, of the orders 1, 2 and infinity."""
    value = self.input(node)
    order = node.arg(1)
    order = 2 if order is None else order
    dims = dims_of(node.arg(2, "dim"), len(value.shape))
    size = apply("abs", value)
    if order == 2:
        found = apply("sqrt", self.reduce("sum", apply("mul", value, value), dims))
    elif order == 1:
        found = self.reduce("sum", size, dims)
    elif order == math.inf:
        found = self.reduce("max", size, dims)
    else:
        raise Unsupported(f"a norm of order {order}")
    return [fitted(found, node)]


NORMS: dict[str, Build] = {
    "native_layer_norm": _layer_norm,
    "native_group_norm": _group_norm,
    "var": _variance(False, False),
    "std": _variance(True, False),
    "var_mean": _variance(False, True),
    "std_mean": _variance(True, True),
    "linalg_vector_norm": _norm,
    "norm": _norm,
    "instance_norm": _instance_norm,
}
