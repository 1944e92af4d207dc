"""How much is measured, and when it is enough."""

from dataclasses import dataclass

from cuda_agent_judge import verdict
from cuda_agent_judge.report import TARGET_RATIO, Interval

NARROW = 1.01
"""Rounds stop when the interval's ends differ by less than this factor and the least number is done."""
FAR = 2.0
"""A factor between both sides, the interval's near end included, that no further round will bring into doubt."""
CLOSE = 1.1
"""How far the ends of another interval may be apart where it holds no limit between two statuses."""


@dataclass(frozen=True)
class Effort:
    """How much to measure."""

    least: int
    most: int
    budget_s: float
    clear: int | None = None
    """Rounds after which it is enough that the interval leaves no doubt about the status."""
    far: int | None = None
    """Rounds after which it is enough that the interval lies beyond FAR."""
    warm: bool = True
    """Whether baselines are called before it begins on `cpu`, too, where each has run in its process already."""
    runs: int = 5
    """Of the throughput probe, at least."""


IN_LOOP = Effort(least=5, most=60, budget_s=2.5, clear=8, far=5, warm=False, runs=3)
FINAL = Effort(least=12, most=200, budget_s=12.0)


def is_far(interval: Interval) -> bool:
    """Whether all of it lies where no further round will bring the status into doubt."""
    return interval.high < 1 / FAR or interval.low > FAR


def is_clear(interval: Interval) -> bool:
    """Whether the status will stay what it is."""
    holds_limit = any(interval.low <= limit <= interval.high for limit in (TARGET_RATIO, verdict.SLOWER))
    return not holds_limit and interval.high < CLOSE * interval.low
