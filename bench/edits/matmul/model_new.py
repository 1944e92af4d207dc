import cuda_extension
import torch


class ModelNew(torch.nn.Module):
    def __init__(self, *given):
        super().__init__()

    def forward(self, a, b):
        return cuda_extension.matmul(a, b)
