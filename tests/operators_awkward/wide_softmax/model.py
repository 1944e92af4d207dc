"""Results so small that an absolute tolerance would let zeros pass."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, logits):
        return torch.softmax(logits, 1)


def get_inputs():
    return [torch.randn(4, 100_000)]


def get_init_inputs():
    return []
