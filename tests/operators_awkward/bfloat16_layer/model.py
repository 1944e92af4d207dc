"""Parameters and inputs in bfloat16."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(128, 96).to(torch.bfloat16)

    def forward(self, rows):
        return self.layer(rows)


def get_inputs():
    return [torch.randn(16, 128, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
