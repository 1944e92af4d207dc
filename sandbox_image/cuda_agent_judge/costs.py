"""What an operation costs: arithmetic and bytes, from shapes alone."""

import contextlib
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

# Operations that read of their first tensor only what they put out.
_GATHERS = {"embedding", "index_select", "gather", "index", "take", "masked_select"}
# In-place operations that do not read what they overwrite.
_OVERWRITES = {"copy_", "fill_", "zero_", "uniform_", "normal_"}


def flops(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, numels: tuple[int, int]) -> int:
    """Floating-point operations: torch's formula where it has one, else one an element.

    `numels` are the elements of the largest input and of all outputs: a pointwise operation is counted by its outputs,
    a reduction by its input.
    """
    formula = flop_registry.get(func.overloadpacket)
    if formula is not None:
        # A formula may know fewer cases than its operation has.
        with contextlib.suppress(ValueError, TypeError, AssertionError, IndexError, NotImplementedError):
            return int(formula(*args, **kwargs, out_val=out))
    largest_input, outputs = numels
    if "empty" in name_of(func):
        return 0
    return outputs if torch.Tag.pointwise in func.tags else max(largest_input, outputs)


def read_bytes(func: Any, touched: Sequence[int], written: int, overwritten: Sequence[bool]) -> list[int]:
    """Bytes read of each tensor argument, given what touching all of it costs."""
    name = name_of(func)
    sizes = list(touched)
    for index, write in enumerate(overwritten):
        if write and (name in _OVERWRITES or name_is_out(func)):
            sizes[index] = 0
    if name in _GATHERS and sizes:
        sizes[0] = min(sizes[0], written)
    return sizes


def name_of(func: Any) -> str:
    """`mul` of aten.mul.Tensor."""
    return str(func._schema.name).split("::")[-1]


def name_is_out(func: Any) -> bool:
    """Whether it writes into an `out=` argument."""
    return any(argument.is_out for argument in func._schema.arguments)
