import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, values):
        return torch.log(values)
