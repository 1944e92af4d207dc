import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.4)

    def forward(self, values):
        return 3 * self.drop(values)
