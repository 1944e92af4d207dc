import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.table = nn.Parameter(torch.randn(size, size))

    def forward(self):
        return self.table @ self.table.t()
