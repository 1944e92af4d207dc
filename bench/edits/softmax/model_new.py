import cuda_extension
import torch


class ModelNew(torch.nn.Module):
    def __init__(self, *given):
        super().__init__()

    def forward(self, x):
        return cuda_extension.softmax(x)
