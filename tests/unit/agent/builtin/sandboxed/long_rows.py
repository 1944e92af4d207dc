"""Operators around reductions of long rows, each for every variant. Runs with the sandbox's Python."""

import torch
import torch.nn.functional as F
from operators import L, h, i, r

VARIANTS = 6
"""Copies of each operator: at least as many as a recipe has variants, which the copies take in turns."""
OPERATORS = {
    "softmax": (lambda x: F.softmax(x * 2, -1), r(5, 30011)),
    "log_softmax": (lambda x: F.log_softmax(x, -1) + 1, h(3, 65001)),
    "layer": (lambda x, w, b: F.layer_norm(x, (40, 1000), w, b), r(3, 40, 1000) + 5, r(40, 1000), r(40, 1000)),
    "group": (lambda x, w, b: F.group_norm(x, 2, w, b), r(2, 8, 90, 101), r(8), r(8)),
    "shifted": (lambda x: F.softmax(x[:, 3:-2], 1), r(3, 29990)),
    "spread": (lambda x: (x.var(1), x.mean(1), x.amax(1)), r(2, 100003) * 2 + 1000),
    "mean": (lambda x, y: F.mse_loss(x, y), r(300, 1001), r(300, 1001)),
    "place": (lambda x: (x.argmax(1), x.argmin(0), x.max(1)), i(4, 20001)),
    "down": (lambda x: (x.amax(1), x.argmax(1), x.logsumexp(1)), r(2, 3000, 33)),
    "rms": (lambda x: x / torch.sqrt(x.pow(2).mean(1, keepdim=True) + 1e-5), r(2, 64, 12, 16)),
    "odd": (
        lambda x: (x.log().argmax(1), torch.logsumexp(x.log() * 0 - torch.inf, 1), F.softmax(x.log(), 1)),
        r(2, 20001),
    ),
    "both": (lambda x, y: F.kl_div(F.log_softmax(x, 1), F.softmax(y, 1), reduction="sum"), r(3, 20002), r(3, 20002)),
}
CASES = {f"{name}{k}": (L(f), list(ins)) for name, (f, *ins) in OPERATORS.items() for k in range(VARIANTS)}
