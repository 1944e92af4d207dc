"""PyTorch's dtypes: promotion, and the C type each is stored and computed in."""

from collections.abc import Iterable
from dataclasses import dataclass

FLOATS = ("float16", "bfloat16", "float32", "float64")
HALVES = ("float16", "bfloat16")
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
ITEM_BYTES = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "int16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "float32": 4,
    "int64": 8,
    "float64": 8,
}
SUPPORTED = frozenset(ITEM_BYTES)

STORED = {
    "bool": "bool",
    "uint8": "uint8_t",
    "int8": "int8_t",
    "int16": "int16_t",
    "float16": "Half",
    "bfloat16": "BFloat",
    "int32": "int32_t",
    "float32": "float",
    "int64": "int64_t",
    "float64": "double",
}
"""The C type in memory; Half and BFloat are structs of the kernel's prelude."""

COMPUTED = {**STORED, "float16": "float", "bfloat16": "float"}
"""The C type in registers."""


def category(dtype: str) -> int:
    """0 bool, 1 integer, 2 floating."""
    if dtype == "bool":
        return 0
    return 2 if dtype in FLOATS else 1


def promote(left: str | None, right: str | None) -> str | None:
    """torch.promote_types; None stands for "nothing yet"."""
    if left is None or right is None or left == right:
        return left or right
    if category(left) != category(right):
        return left if category(left) > category(right) else right
    if category(left) == 2:
        return _promote_floats(left, right)
    if "uint8" in (left, right):
        other = right if left == "uint8" else left
        return "int16" if other == "int8" else other
    return max(left, right, key=INTEGERS.index)


def _promote_floats(left: str, right: str) -> str:
    if {left, right} == {"float16", "bfloat16"}:
        return "float32"
    return max(left, right, key=FLOATS.index)


@dataclass(frozen=True)
class Typed:
    """What promotion needs to know of one operand."""

    dtype: str
    dims: int
    wrapped: bool = False
    """A Python number, not a tensor."""


def result_type(operands: Iterable[Typed]) -> str:
    """torch.result_type: tensors with dimensions outrank 0-dim tensors, and those outrank Python numbers."""
    ranks: list[str | None] = [None, None, None]
    for operand in operands:
        rank = 2 if operand.wrapped else (1 if operand.dims == 0 else 0)
        dtype = operand.dtype
        if operand.wrapped and category(dtype) == 2:
            dtype = "float32"
        ranks[rank] = promote(ranks[rank], dtype)
    found = _combine(ranks[0], _combine(ranks[1], ranks[2]))
    return found or "float32"


def _combine(higher: str | None, lower: str | None) -> str | None:
    if higher is None or lower is None:
        return higher or lower
    if category(higher) == 2:
        return higher
    if higher == "bool" or category(lower) == 2:
        return promote(higher, lower)
    return higher
