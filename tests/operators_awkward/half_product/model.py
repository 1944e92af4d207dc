"""A product in half precision."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, left, right):
        return left @ right


def get_inputs():
    return [torch.randn(96, 128).half(), torch.randn(128, 64).half()]


def get_init_inputs():
    return []
