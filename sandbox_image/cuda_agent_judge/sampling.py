"""A few random places of an output, read the moment a call returns.

What is copied out later must still hold these values: work that a thread finishes after forward returned shows.
"""

import os
from typing import Any

import torch

_take, _equal = torch.Tensor.take, torch.equal
_from_list = torch.tensor
PLACES = 48


def sample(tensors: list[torch.Tensor]) -> list[tuple[Any, torch.Tensor]]:
    """Places and values of each tensor."""
    taken = []
    for tensor in tensors:
        if tensor.numel() == 0 or tensor.layout != torch.strided:
            continue
        seeds = os.urandom(8 * PLACES)
        places = [int.from_bytes(seeds[8 * i : 8 * i + 8], "big") % tensor.numel() for i in range(PLACES)]
        index = _from_list(places, device=tensor.device)
        taken.append((index, _take(tensor.detach(), index)))
    return taken


def settled(taken: list[tuple[Any, torch.Tensor]], tensors: list[torch.Tensor]) -> bool:
    """Whether the tensors still hold what was read."""
    full = [tensor for tensor in tensors if tensor.numel()]
    if len(full) != len(taken):
        return False
    return all(_same(value, _take(tensor, index)) for (index, value), tensor in zip(taken, full, strict=True))


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.dtype != other.dtype:
        return False
    return bool(_equal(one.view(torch.uint8), other.view(torch.uint8)))
