"""Images from channels-first to channels-last, gated by a second one: two outputs from a dict of inputs."""

import torch
import torch.nn as nn


class Model(nn.Module):
    """Returns the gated images and the gate."""

    def __init__(self, channels, bias=True):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(channels)) if bias else None

    def forward(self, batch):
        gate = torch.sigmoid(batch["gate"].permute(0, 2, 3, 1).contiguous())
        images = batch["images"].permute(0, 2, 3, 1).contiguous()
        if self.bias is not None:
            images = images + self.bias
        return {"images": images * gate, "gate": gate}


def get_inputs():
    return [{"images": torch.randn(8, 48, 56, 56), "gate": torch.randn(8, 48, 56, 56)}]


def get_init_inputs():
    return [[48], {"bias": True}]
