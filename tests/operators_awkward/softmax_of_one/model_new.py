import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, rows):
        return torch.softmax(rows.sum(1, keepdim=True), 1)
