"""One argument, a dict of tensors."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, pair):
        return pair["left"] - 2 * pair["right"]


def get_inputs():
    return [{"left": torch.randn(48, 40), "right": torch.randn(48, 40)}]


def get_init_inputs():
    return []
