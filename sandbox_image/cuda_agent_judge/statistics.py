"""Medians, quartiles and bootstrap intervals, in plain Python: the judge itself runs no tensor operation."""

import math
import random
from collections.abc import Sequence

from cuda_agent_judge.report import Interval, Latency

RESAMPLES = 2000


def quantile(values: Sequence[float], share: float) -> float:
    """The quantile with linear interpolation between neighbours.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("no values to take a quantile of")
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def median(values: Sequence[float]) -> float:
    """The middle value."""
    return quantile(values, 0.5)


def latency(spans_ns: Sequence[int]) -> Latency:
    """Median and quartiles in ms."""
    ms = [span / 1e6 for span in spans_ns]
    return Latency(median(ms), quantile(ms, 0.25), quantile(ms, 0.75), len(ms))


def log_ratios(numerator_ns: Sequence[int], denominator_ns: Sequence[int]) -> list[float]:
    """The log ratio of every round; a span below 1 ns counts as 1 ns."""
    pairs = zip(numerator_ns, denominator_ns, strict=True)
    return [math.log(max(a, 1) / max(b, 1)) for a, b in pairs]


def ratio_interval(logs: Sequence[float], seed: int) -> Interval:
    """The median ratio with its 95 % bootstrap interval over rounds."""
    draw = random.Random(seed)
    values = list(logs)
    medians = [median(draw.choices(values, k=len(values))) for _ in range(RESAMPLES)]
    return Interval(math.exp(median(values)), math.exp(quantile(medians, 0.025)), math.exp(quantile(medians, 0.975)))


def inverse(interval: Interval) -> Interval:
    """The interval of 1/x."""
    return Interval(1 / interval.median, 1 / interval.high, 1 / interval.low)
