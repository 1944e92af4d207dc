"""Constructor inputs as a pair of positional and keyword arguments."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels, filters, bias=True):
        super().__init__()
        self.conv = nn.Conv2d(channels, filters, 3, bias=bias)

    def forward(self, images):
        return self.conv(images)


def get_inputs():
    return [torch.randn(2, 3, 20, 20)]


def get_init_inputs():
    return [[3, 6], {"bias": False}]
