"""The operator through the kernels of kernels/diagonal_product.*."""

import cuda_extension
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    """Takes the constructor's arguments of Model and has its state_dict."""

    def __init__(self, *args, **kwargs):
        super().__init__()

    def forward(self, *args, **kwargs):
        i0 = args[0]
        i1 = args[1]
        device = i0.device
        out0 = torch.empty_strided((2048, 2048), (2048, 1), dtype=torch.float32, device=device)
        cuda_extension.diagonal_product(i0, i1, out0)
        return out0
