import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, left, right):
        return left @ right
