"""Tensors made of numbers alone: arange and eye."""

from typing import Any

from cuda_agent.llm.builtin.diagonal import identity
from cuda_agent.llm.builtin.expr import Apply, Const, Index, Position, Value
from cuda_agent.llm.builtin.graph import Node
from cuda_agent.llm.builtin.pointwise import convert

FACTORIES = frozenset({"arange", "eye"})


def factory(node: Node) -> Value:
    """Return the tensor of a factory."""
    shape, dtype = node.out.shape, node.out.dtype
    if node.op == "eye":
        return identity(shape, dtype)
    start, step = _arange_bounds(node)
    if isinstance(start, int) and isinstance(step, int):
        return Value(shape, convert(Position(Index(start, (step,))), dtype))
    position = convert(Position(Index(0, (1,))), dtype)
    scaled = Apply("mul", (position, convert(Const(float(step), "float64"), dtype)), dtype)
    return Value(shape, Apply("add", (convert(Const(float(start), "float64"), dtype), scaled), dtype))


def _arange_bounds(node: Node) -> tuple[Any, Any]:
    numbers = [arg for arg in node.args if isinstance(arg, int | float)]
    if node.overload == "" or node.overload == "default" or len(numbers) == 1:
        return 0, 1
    return numbers[0], numbers[2] if len(numbers) > 2 else 1
