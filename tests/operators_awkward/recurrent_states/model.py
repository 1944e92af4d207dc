"""A nested tuple of results: the outputs of an LSTM and its last states."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = nn.LSTM(10, 12)

    def forward(self, steps):
        return self.cells(steps)


def get_inputs():
    return [torch.randn(5, 3, 10)]


def get_init_inputs():
    return []
