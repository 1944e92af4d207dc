"""A softmax over a dimension of size 1: ones, whatever comes in."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, rows):
        return torch.softmax(rows.sum(1, keepdim=True), 1)


def get_inputs():
    return [torch.randn(56, 72)]


def get_init_inputs():
    return []
