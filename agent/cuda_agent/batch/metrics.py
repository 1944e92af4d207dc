"""The published numbers of a set of rows, with their intervals. Pure functions.

Rates are over all operators that count: a wrong kernel is not faster. Their 95 % intervals are Wilson's. The speedup is
the geometric mean over right kernels only; its 95 % interval is a percentile bootstrap over operators. fast_p is the
share of operators with a right kernel that is more than p times as fast as the baseline.
"""

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from cuda_agent.batch.results import Category, Row

BASELINES = ("compile", "eager")
FAST_P = (1.0, 1 / 0.95, 1.5, 2.0)
_Z = 1.959963984540054
_RESAMPLES = 2000
_SEED = 20250715


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval; the interval is missing where there is too little to say one."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Metrics:
    """The numbers of one line of a table."""

    operators: int
    """All of them, whatever became of them."""
    by_category: Mapping[str, int]
    counted: int
    """What the rates are over."""
    correct: int
    final: int
    """Of the right kernels, those whose numbers are a final verdict's."""
    passed: Estimate | None
    faster: Mapping[str, Estimate | None]
    """By baseline."""
    speedup: Mapping[str, Estimate | None]
    fast_p: Mapping[str, Mapping[float, Estimate | None]]
    without_compile: int
    """Right kernels of operators that torch.compile cannot run: eager stands for it."""
    cost_usd: float
    """As far as it is known."""
    cost_unknown: int
    """So many runs' cost is not known."""
    input_tokens: int
    output_tokens: int
    work_s: float
    """Of all runs together."""
    elapsed_s: float
    """Time in which at least one run was at work."""
    cpu_s: float
    attempts: int
    failures: int
    held: Mapping[str, float]
    busy: float | None
    """The share of `elapsed_s` in which the devices were held, the mean of those used; None where nothing was."""


def metrics(rows: Sequence[Row], *, by_level: bool = False) -> Metrics:
    """Return the numbers of these rows; `by_level` weighs the levels' speedups by their operators, as published."""
    counted = [row for row in rows if row.category is Category.COUNTED]
    correct = [row for row in counted if row.correct]
    speedup = _by_levels if by_level else geometric_mean
    elapsed_s = union_s(span for row in rows for span in row.spans)
    held: dict[str, float] = {}
    for row in rows:
        for key, value in row.held.items():
            held[key] = held.get(key, 0.0) + value
    return Metrics(
        operators=len(rows),
        by_category={one.value: sum(row.category is one for row in rows) for one in Category},
        counted=len(counted),
        correct=len(correct),
        final=sum(row.final for row in correct),
        passed=wilson(len(correct), len(counted)),
        faster={name: _share(counted, name, 1.0) for name in BASELINES},
        speedup={name: speedup(counted, name) for name in BASELINES},
        fast_p={name: {p: _share(counted, name, p) for p in FAST_P} for name in BASELINES},
        without_compile=sum(row.over_compile is None for row in correct),
        cost_usd=sum(row.cost_usd or 0.0 for row in rows),
        cost_unknown=sum(row.cost_usd is None for row in rows),
        input_tokens=sum(row.input_tokens for row in rows),
        output_tokens=sum(row.output_tokens for row in rows),
        work_s=sum(row.work_s for row in rows),
        elapsed_s=elapsed_s,
        cpu_s=sum(row.cpu_s for row in rows),
        attempts=sum(row.attempts for row in rows),
        failures=sum(row.failures for row in rows),
        held=held,
        busy=_busy(rows, held, elapsed_s),
    )


def _busy(rows: Sequence[Row], held: Mapping[str, float], elapsed_s: float) -> float | None:
    devices = len({row.gpu for row in rows if row.gpu}) or 1
    return held["device_s"] / (devices * elapsed_s) if held.get("device_s") and elapsed_s else None


def union_s(spans: Iterable[tuple[float, float]]) -> float:
    """Return how long at least one span lasts."""
    total, until = 0.0, -math.inf
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def wilson(successes: int, total: int) -> Estimate | None:
    """Return a share with Wilson's 95 % interval; None of nothing."""
    if not total:
        return None
    share, square = successes / total, _Z * _Z
    middle = (share + square / (2 * total)) / (1 + square / total)
    half = _Z * math.sqrt(share * (1 - share) / total + square / (4 * total * total)) / (1 + square / total)
    # At 0 and at 1 the bound is the share itself, which rounding may miss.
    return Estimate(share, max(0.0, middle - half) if successes else 0.0, middle + half if successes < total else 1.0)


def geometric_mean(rows: Sequence[Row], baseline: str) -> Estimate | None:
    """Return the geometric mean of the right kernels' speedups; None where there is none."""
    logs = _logs(rows, baseline)
    if not logs:
        return None
    interval = bootstrap([logs], lambda drawn: math.fsum(drawn[0]) / len(drawn[0]))
    return _exponential(math.fsum(logs) / len(logs), interval)


def _by_levels(rows: Sequence[Row], baseline: str) -> Estimate | None:
    """Return the levels' geometric means, weighted by how many operators of each count; drawn level by level."""
    levels = sorted({row.level for row in rows})
    groups = [[row for row in rows if row.level == level] for level in levels]
    weighed = [(logs, len(group)) for group in groups if (logs := _logs(group, baseline))]
    if not weighed:
        return None
    total = sum(weight for _, weight in weighed)

    def mean(drawn: Sequence[Sequence[float]]) -> float:
        shares = (
            weight / total * math.fsum(logs) / len(logs) for logs, (_, weight) in zip(drawn, weighed, strict=True)
        )
        return math.fsum(shares)

    every = [logs for logs, _ in weighed]
    return _exponential(mean(every), bootstrap(every, mean))


def bootstrap(
    strata: Sequence[Sequence[float]], statistic: Callable[[Sequence[Sequence[float]]], float]
) -> tuple[float, float] | None:
    """Return the 95 % percentile interval of a statistic, drawn anew within each stratum; the seed is fixed.

    None where no stratum has two values: then nothing can be said of how they vary.
    """
    if all(len(values) < 2 for values in strata):
        return None
    draw = random.Random(_SEED)
    found = sorted(statistic([draw.choices(values, k=len(values)) for values in strata]) for _ in range(_RESAMPLES))
    cut = round(0.025 * _RESAMPLES)
    return found[cut], found[-1 - cut]


def _exponential(value: float, interval: tuple[float, float] | None) -> Estimate:
    if interval is None:
        return Estimate(math.exp(value))
    return Estimate(math.exp(value), math.exp(interval[0]), math.exp(interval[1]))


def _logs(rows: Sequence[Row], baseline: str) -> list[float]:
    found = [row.over(baseline) for row in rows if row.correct]
    return [math.log(one.median) for one in found if one is not None and 0 < one.median < math.inf]


def _share(counted: Sequence[Row], baseline: str, p: float) -> Estimate | None:
    ratios = [row.over(baseline) for row in counted if row.correct]
    return wilson(sum(one is not None and one.median > p for one in ratios), len(counted))
