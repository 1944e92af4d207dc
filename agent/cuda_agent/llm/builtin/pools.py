"""Pooling without padding: windows as a view, then a maximum or a mean over each."""

from cuda_agent.llm.builtin.expr import Value
from cuda_agent.llm.builtin.graph import Node, Unsupported
from cuda_agent.llm.builtin.reductions import Build, Reductions, fitted
from cuda_agent.llm.builtin.views import unfold


def _windows(self: Reductions, node: Node) -> Value:
    """Return the input with its windows' dimensions last.

    Raises:
        Unsupported: windows that reach beyond the input.
    """
    value = self.input(node)
    sizes, steps, padding = node.arg(1), node.arg(2, "stride") or node.arg(1), node.arg(3, "padding", [0])
    if any(padding):
        raise Unsupported(f"{node.title} with padding")
    rank = len(value.shape)
    # A window's own dimension is put last: the sides stay where they are.
    for place, dim in enumerate((rank - 2, rank - 1)):
        value = unfold(value, dim, sizes[place % len(sizes)], steps[place % len(steps)])
    return value


def _max_pool(self: Reductions, node: Node) -> list[Value]:
    """Do max pooling; where each maximum is, is not said."""
    if any(size != 1 for size in node.arg(4, "dilation", [1])) or node.arg(5, "ceil_mode", False):
        raise Unsupported(f"{node.title} with dilation or windows that are cut off")
    windows = _windows(self, node)
    rank = len(windows.shape)
    return [fitted(self.reduce("max", windows, [rank - 2, rank - 1]), node)]


def _avg_pool(self: Reductions, node: Node) -> list[Value]:
    if node.arg(4, "ceil_mode", False) or node.arg(6, "divisor_override") is not None:
        raise Unsupported(f"{node.title} with another divisor or windows that are cut off")
    windows = _windows(self, node)
    rank = len(windows.shape)
    return [fitted(self.mean(windows, [rank - 2, rank - 1]), node)]


POOLS: dict[str, Build] = {"max_pool2d_with_indices": _max_pool, "avg_pool2d": _avg_pool}
