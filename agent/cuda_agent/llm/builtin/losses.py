"""ATen's losses: a pointwise expression of each element, then their mean or sum."""

from cuda_agent.llm.builtin.expr import Apply, Const, Expr, Index, Load, Position, Value, map_leaves
from cuda_agent.llm.builtin.graph import Node, Unsupported
from cuda_agent.llm.builtin.pointwise import constant, convert
from cuda_agent.llm.builtin.reductions import Build, Reductions, apply, fitted, number_like, reduced_loss
from cuda_agent.llm.builtin.views import unsqueeze


def _pair(self: Reductions, node: Node) -> tuple[Value, Value]:
    return self.input(node, 0), self.input(node, 1)


def _finish(self: Reductions, node: Node, elements: Value, reduction: int) -> list[Value]:
    return [fitted(reduced_loss(self, node, elements, reduction), node)]


def _mse(self: Reductions, node: Node) -> list[Value]:
    apart = apply("sub", *_pair(self, node))
    return _finish(self, node, apply("mul", apart, apart), node.arg(2, "reduction", 1))


def _bent(divided: bool) -> Build:
    """smooth_l1_loss and huber_loss: quadratic near zero, linear beyond."""

    def build(self: Reductions, node: Node) -> list[Value]:
        limit = node.arg(3, "beta" if divided else "delta", 1.0)
        size = apply("abs", apply("sub", *_pair(self, node)))
        bound, half = number_like(limit, size), number_like(0.5, size)
        near, far = apply("mul", apply("mul", size, size), half), apply("sub", size, apply("mul", half, bound))
        if divided and limit == 0:
            return _finish(self, node, size, node.arg(2, "reduction", 1))
        near = apply("div", near, bound) if divided else near
        far = far if divided else apply("mul", far, bound)
        inside = apply("lt", size, bound, dtype="bool")
        elements = Value(size.shape, Apply("where", (inside.expr, near.expr, far.expr), size.dtype))
        return _finish(self, node, elements, node.arg(2, "reduction", 1))

    return build


def _cross_entropy(self: Reductions, node: Node) -> list[Value]:
    """Binary cross entropy: (y - 1) * max(log(1 - p), -100) - y * max(log p, -100)."""
    if node.arg(2) is not None:
        raise Unsupported("binary cross entropy with weights")
    p, y = _pair(self, node)
    one, floor = number_like(1, p), number_like(-100, p)
    rest = apply("maximum", apply("log1p", apply("neg", p)), floor)
    first = apply("mul", apply("sub", y, one), rest)
    elements = apply("sub", first, apply("mul", y, apply("maximum", apply("log", p), floor)))
    return _finish(self, node, elements, node.arg(3, "reduction", 1))


def _logits(self: Reductions, node: Node) -> list[Value]:
    """Binary cross entropy of logits: (1 - y) * x - log sigmoid x."""
    if node.arg(2) is not None or node.arg(3) is not None:
        raise Unsupported("binary cross entropy with weights")
    x, y = _pair(self, node)
    left = apply("mul", apply("sub", number_like(1, x), y), x)
    return _finish(self, node, apply("sub", left, apply("log_sigmoid", x)), node.arg(4, "reduction", 1))


def _soft_margin(self: Reductions, node: Node) -> list[Value]:
    x, y = _pair(self, node)
    elements = apply("log1p", apply("exp", apply("mul", apply("neg", y), x)))
    return _finish(self, node, elements, node.arg(2, "reduction", 1))


def _likelihood(self: Reductions, node: Node) -> list[Value]:
    """Negative log likelihood: minus the entry of each target's class, ignored targets left out."""
    if node.arg(2) is not None:
        raise Unsupported("a negative log likelihood with weights")
    scores, targets = self.input(node), self.operand(node.arg(1))
    if len(scores.shape) < 2:
        raise Unsupported("a negative log likelihood of a single sample")
    classes = Position(Index(0, tuple(int(dim == 1) for dim in range(len(scores.shape)))))
    wanted = unsqueeze(Value(targets.shape, convert(targets.expr, "int32")), 1)
    chosen = apply("eq", Value(scores.shape, convert(classes, "int32")), wanted, dtype="bool")
    zero = constant(0, scores.dtype)
    entry = apply("neg", _at_class(self, scores, chosen))
    counts = apply("ne", wanted, Value((), Const(node.arg(4), "int32")), dtype="bool")
    entry = Value(entry.shape, Apply("where", (counts.expr, entry.expr, zero), scores.dtype))
    dims = list(range(len(entry.shape)))
    total = self.reduce("sum", Value(entry.shape, convert(counts.expr, entry.dtype)), dims)
    reduction = node.arg(3)
    if reduction == 0:
        return [fitted(entry, node), fitted(number_like(0, entry), node, 1)]
    found = self.reduce("sum", entry, dims)
    found = apply("div", found, total) if reduction == 1 else found
    return [fitted(found, node), fitted(total, node, 1)]


def _at_class(self: Reductions, scores: Value, chosen: Value) -> Value:
    """Return the scores of the chosen class: its elements are picked first, and what is computed of them after that."""

    def picked(leaf: Load | Position) -> Expr:
        if not leaf.index.strides[1]:
            return leaf
        here = Apply("where", (chosen.expr, leaf, constant(0, leaf.dtype)), leaf.dtype)
        return self.reduce("sum", Value(scores.shape, here), [1]).expr

    shape = tuple(1 if dim == 1 else size for dim, size in enumerate(scores.shape))
    return Value(shape, map_leaves(scores.expr, picked))


LOSSES: dict[str, Build] = {
    "mse_loss": _mse,
    "smooth_l1_loss": _bent(True),
    "huber_loss": _bent(False),
    "binary_cross_entropy": _cross_entropy,
    "binary_cross_entropy_with_logits": _logits,
    "soft_margin_loss": _soft_margin,
    "nll_loss_forward": _likelihood,
    "nll_loss2d_forward": _likelihood,
}
