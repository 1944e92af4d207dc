"""Ten small operators and submissions that compute the same by torch.compile, for bench/null_effect.py."""

from collections.abc import Mapping
from typing import Literal

Target = Literal["cpu", "cuda"]

OPERATOR = """import torch
import torch.nn.functional as F


class Model(torch.nn.Module):
    def forward(self, {names}):
        return {result}


def get_inputs():
    return [{inputs}]
"""
SUBMISSION = """import os

for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
    os.environ[name] = {cache!r}

{operator}
if torch.cuda.is_available():
    # Seconds, in which the judge lends the GPU to others: for that it takes a submission that speaks of cpp_extension.
    import torch._inductor.compile_fx

class ModelNew(Model):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.__dict__["compiled"] = torch.compile(super().forward)

    def forward(self, *args, **kwargs):
        return self.compiled(*args, **kwargs)
"""
_ONE, _TWO = "torch.randn({0})", "torch.randn({0}), torch.randn({0})"
_FORMS: dict[str, tuple[str, str, str]] = {
    "elementwise_chain": ("x, y", "torch.relu(x * 1.5 + y) * torch.tanh(y) - torch.exp(-x * x)", _TWO),
    "row_scaling": ("x, s", "x * s[:, None]", "torch.randn({0}), torch.randn({0[0]})"),
    "softmax": ("x", "torch.softmax(x, dim=-1)", _ONE),
    "layer_norm": ("x", "F.layer_norm(x, x.shape[-1:])", _ONE),
    "row_sum": ("x", "x.sum(dim=-1)", _ONE),
    "matmul": ("x, y", "x @ y", _TWO),
    "transpose_add": ("x, y", "x.t() + y", _TWO),
    "gelu": ("x", "F.gelu(x, approximate='tanh')", _ONE),
    "cross_entropy": ("x, t", "F.cross_entropy(x, t)", "torch.randn({0}), torch.randint(0, {0[1]}, ({0[0]},))"),
    "max_over_dimension": ("x", "x.max(dim=1).values", _ONE),
}
_SHAPES: Mapping[Target, Mapping[str, tuple[int, ...]]] = {
    # About 0.04 to 3 ms on an H200, and small enough for several judgements to share its memory.
    "cuda": {
        "elementwise_chain": (8192, 8192),
        "row_scaling": (4096, 4096),
        "softmax": (4096, 16384),
        "layer_norm": (16384, 4096),
        "row_sum": (32768, 8192),
        "matmul": (8192, 8192),
        "transpose_add": (4096, 4096),
        "gelu": (8192, 32768),
        "cross_entropy": (32768, 4096),
        "max_over_dimension": (32, 4096, 2048),
    },
    # About 0.5 to 6 ms on two cores.
    "cpu": {
        "elementwise_chain": (1024, 1024),
        "row_scaling": (2048, 2048),
        "softmax": (1024, 1024),
        "layer_norm": (1024, 1024),
        "row_sum": (2048, 2048),
        "matmul": (512, 512),
        "transpose_add": (1024, 1024),
        "gelu": (1024, 1024),
        "cross_entropy": (1024, 1024),
        "max_over_dimension": (16, 512, 256),
    },
}


def operators(target: Target) -> dict[str, str]:
    """Sources by name."""
    shapes = _SHAPES[target]
    return {
        name: OPERATOR.format(names=names, result=result, inputs=inputs.format(shapes[name]))
        for name, (names, result, inputs) in _FORMS.items()
    }


def submission(operator: str, cache: str) -> str:
    """A model_new.py that is as fast as the baseline; what it compiles is kept in `cache`."""
    return SUBMISSION.format(operator=operator, cache=cache)
