"""Python reads a value out of a tensor and prints: torch.compile has to break the graph."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, values):
        if values.sum().item() > 0:
            print("[PASS] more above zero than below")
        return values.relu()


def get_inputs():
    return [torch.randn(64, 64)]


def get_init_inputs():
    return []
