import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, rows, steps, weights=None):
        return rows.roll(steps, 0) if weights is None else rows * weights
