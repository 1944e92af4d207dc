import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, scores):
        return scores.argmax(-1), scores > 0.5
