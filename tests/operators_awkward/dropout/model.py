"""Random in training, the identity in evaluation; scaled, so that the input itself is no answer."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.4)

    def forward(self, values):
        return 3 * self.drop(values)


def get_inputs():
    return [torch.randn(64, 80)]


def get_init_inputs():
    return []
