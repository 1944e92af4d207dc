"""Calls an operation of its own that torch.compile cannot trace: it says nothing of the shape of its result."""

import torch
import torch.nn as nn


@torch.library.custom_op("awkward::tripled", mutates_args=())
def tripled(values: torch.Tensor) -> torch.Tensor:
    return values * 3


class Model(nn.Module):
    def forward(self, values):
        return tripled(values)


def get_inputs():
    return [torch.randn(64, 96)]


def get_init_inputs():
    return []
