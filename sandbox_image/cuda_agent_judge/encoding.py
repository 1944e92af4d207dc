"""Arguments of traced operations as JSON."""

import math
from collections.abc import Callable
from typing import Any

import torch

MAX_VALUES = 64
"""A constant's elements are listed up to so many."""


def encode(value: Any, ref: Callable[[torch.Tensor], str]) -> Any:
    """An argument as JSON; `ref` gives a tensor's id."""
    if isinstance(value, torch.Tensor):
        return {"ref": ref(value)}
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return encode_float(value)
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    if isinstance(value, list | tuple):
        return [encode(item, ref) for item in value]
    if isinstance(value, dict):
        return {str(key): encode(item, ref) for key, item in value.items()}
    return {"other": str(value)[:200]}


def encode_float(value: float) -> Any:
    """A number as JSON, which has no infinities."""
    if math.isfinite(value):
        return value
    return {"float": "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"}


def encode_values(tensor: torch.Tensor) -> list[Any] | None:
    """The elements of a small tensor in order; None for a large one or one of another kind of number."""
    if tensor.layout is not torch.strided or tensor.numel() > MAX_VALUES or tensor.is_complex():
        return None
    items: list[Any] = tensor.detach().cpu().double().tolist() if tensor.is_floating_point() else tensor.cpu().tolist()
    flat = [items] if tensor.dim() == 0 else _flat(items)
    return [encode_float(item) if isinstance(item, float) else item for item in flat]


def full_arguments(schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword-only arguments of a call with the schema's defaults filled in."""
    positional: list[Any] = []
    keyword: dict[str, Any] = {}
    for index, argument in enumerate(schema.arguments):
        if index < len(args):
            value = args[index]
        elif argument.name in kwargs:
            value = kwargs[argument.name]
        else:
            value = _default(argument)
        if argument.kwarg_only:
            keyword[argument.name] = value
        else:
            positional.append(value)
    return positional, keyword


def _default(argument: Any) -> Any:
    if not argument.has_default_value():
        return None
    value = argument.default_value
    if value is not None and argument.N and not isinstance(value, list | tuple):
        return [value] * argument.N
    # The schema holds enumerations as numbers.
    kind = str(argument.type).removesuffix("?")
    return value if kind != "MemoryFormat" or value is None else {"other": str(value)}


def _flat(items: list[Any]) -> list[Any]:
    return [leaf for item in items for leaf in (_flat(item) if isinstance(item, list) else [item])]
