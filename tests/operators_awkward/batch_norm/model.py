"""Batch norm on inputs that are neither centred nor of unit variance."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(6)

    def forward(self, images):
        return self.norm(images)


def get_inputs():
    return [torch.randn(4, 6, 12, 12) * 2 - 3]


def get_init_inputs():
    return []
