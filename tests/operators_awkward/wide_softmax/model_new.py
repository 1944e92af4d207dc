import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, logits):
        return torch.softmax(logits, 1)
