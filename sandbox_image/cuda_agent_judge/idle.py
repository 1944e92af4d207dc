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


def uncertainty(idle: Sequence[int], calls: int) -> float:
    """The standard error of the difference between what is typical of idle turns and of so many calls.

    Both are taken to scatter as the idle turns do: how far the calls' own claims scatter is the submission's choice.
    """
    kept = sorted(idle)[: max(2, int(len(idle) * KEPT_SHARE))]
    mean = sum(kept) / len(kept)
    variance = sum((value - mean) ** 2 for value in kept) / max(len(kept) - 1, 1)
    return math.sqrt(variance / len(kept) + variance / max(int(calls * KEPT_SHARE), 1))
