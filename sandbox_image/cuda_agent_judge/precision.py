"""The precision policy, set the same way in both workers."""

import torch

from cuda_agent_judge.session import Precision


def apply_precision(precision: Precision) -> None:
    """Allow TF32 for matmul and convolution, or forbid it."""
    allowed = precision != "ieee"
    torch.set_float32_matmul_precision("high" if allowed else "highest")
    torch.backends.cudnn.allow_tf32 = allowed
