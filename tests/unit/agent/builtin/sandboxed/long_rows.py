"""Operators around reductions of long rows, for every variant. Runs with the sandbox's Python."""

import torch
import torch.nn.functional as F
from operators import L, h, r

HELD, READ_ONCE = 5, 3
"""Copies of an operator, which take its variants in turns: as many as there are where rows are held."""
OPERATORS = {
    "softmax": (HELD, lambda x: F.softmax(x * 2, -1), r(4, 30011)),
    "log_softmax": (HELD, lambda x: F.log_softmax(x, -1) + 1, h(2, 65001)),
    "layer": (HELD, lambda x, w, b: F.layer_norm(x, (40, 750), w, b), r(2, 40, 750) + 5, r(40, 750), r(40, 750)),
    "group": (HELD, lambda x, w, b: F.group_norm(x, 2, w, b), r(1, 8, 90, 101), r(8), r(8)),
    "shifted": (HELD, lambda x: F.softmax(x[:, 3:-2], 1) * x[:, 3:-2].std(1, keepdim=True), r(3, 29990)),
    "odd": (READ_ONCE, lambda x: (torch.logsumexp(x.log() * 0 - torch.inf, 1), F.softmax(x.log(), 1)), r(2, 9001)),
    "spread": (READ_ONCE, lambda x: (x.var(1), x.mean(1), x.amax(1), x.argmin(1)), r(2, 50003) * 2 + 1000),
    "down": (READ_ONCE, lambda x: (x.amax(1), x.argmax(1), x.logsumexp(1)), r(2, 900, 33)),
    "rms": (READ_ONCE, lambda x: x / torch.sqrt(x.pow(2).mean(1, keepdim=True) + 1e-5), r(2, 64, 6, 16)),
}
CASES = {f"{name}{k}": (L(f), list(ins)) for name, (copies, f, *ins) in OPERATORS.items() for k in range(copies)}
