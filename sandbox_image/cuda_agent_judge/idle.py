"""What the protocol itself costs in the candidate worker, measured before it has loaded anything of a submission.

On `cuda` two processes share the GPU: each turn from the reference worker to the candidate worker costs a switch of
contexts that no span of the reference worker shows. So the judge's clock is calibrated where it is used.
"""

import math
import time
from collections.abc import Callable, Sequence

TURNS = 24
LIMIT_S = 3.0
_LEAST = 4
KEPT_SHARE = 0.8


def calibrate(turn: Callable[[], int]) -> list[int]:
    """Make turns that do nothing; `turn` gives the judge's span less the worker's claim, in ns.

    Only an untouched worker can be asked: afterwards its answers are the submission's.
    """
    end = time.monotonic() + LIMIT_S
    apart: list[int] = []
    while len(apart) < TURNS and (len(apart) < _LEAST or time.monotonic() < end):
        apart.append(turn())
    return apart


def typical(apart: Sequence[int]) -> float:
    """The mean without the upper fifth, where load shows; a clock that lies often enough to gain stays in."""
    kept = sorted(apart)[: max(1, int(len(apart) * KEPT_SHARE))]
    return sum(kept) / len(kept)


def uncertainty(one: Sequence[int], other: Sequence[int]) -> float:
    """The standard error of the difference between what is typical of both."""
    total = 0.0
    for apart in (one, other):
        kept = sorted(apart)[: max(2, int(len(apart) * KEPT_SHARE))]
        mean = sum(kept) / len(kept)
        total += sum((value - mean) ** 2 for value in kept) / max(len(kept) - 1, 1) / len(kept)
    return math.sqrt(total)
