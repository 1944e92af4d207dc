import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, values):
        return values.relu()
