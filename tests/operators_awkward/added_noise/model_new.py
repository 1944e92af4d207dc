import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, values):
        return values + 0.1 * torch.randn_like(values)
