"""Two batches held against each other, operator by operator. Pure functions over rows.

Differences of rates and the ratio of speedups come with paired 95 % bootstrap intervals: operators are drawn, each with
what both batches made of it.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cuda_agent.batch.metrics import BASELINES, Estimate, bootstrap
from cuda_agent.batch.results import Category, Row

MARGIN = 0.05
"""A ratio within it is neither better nor worse."""


@dataclass(frozen=True)
class Pairing:
    """Which operators both have."""

    pairs: tuple[tuple[Row, Row], ...]
    """Both counted."""
    at_limit: tuple[tuple[Row, Row], ...]
    """Both ended at the hardware's limit, without a right kernel."""
    apart: tuple[tuple[Row, Row], ...]
    """Both have it, but one of them at least does not count it, at the limit or for another reason."""
    other: tuple[tuple[Row, Row], ...]
    """The same name for another operator."""
    only_a: tuple[Row, ...]
    only_b: tuple[Row, ...]


@dataclass(frozen=True)
class Rates:
    """A share in both batches over the same operators, and B's less A's."""

    a: float
    b: float
    difference: Estimate
    only_a: tuple[str, ...]
    """Operators for which it holds in A alone."""
    only_b: tuple[str, ...]


@dataclass(frozen=True)
class Ratios:
    """B's speedup over A's, where both have a right kernel."""

    operators: int
    mean: Estimate | None
    """Geometric."""
    better: tuple[tuple[str, float], ...]
    """Operators and ratios beyond the margin, B ahead."""
    worse: tuple[tuple[str, float], ...]
    same: int


@dataclass(frozen=True)
class Comparison:
    """What two batches say of each other."""

    pairing: Pairing
    passed: Rates | None
    faster: dict[str, Rates | None]
    ratios: dict[str, Ratios]
    differing_conditions: dict[str, int]
    """By condition (rules, isolation, device): the pairs in which both ran under different ones."""


def compare(a: Sequence[Row], b: Sequence[Row]) -> Comparison:
    """Compare two sets of rows, one row an operator each."""
    pairing = pair(a, b)
    pairs = pairing.pairs
    return Comparison(
        pairing,
        _rates(pairs, lambda row: row.correct),
        {name: _rates(pairs, lambda row, name=name: _faster(row, name)) for name in BASELINES},  # type: ignore[misc]
        {name: _ratios(pairs, name) for name in BASELINES},
        _differing(pairs),
    )


def pair(a: Sequence[Row], b: Sequence[Row]) -> Pairing:
    """Pair rows by the operator's name where that is unique in both, else by its path."""
    count_a, count_b = Counter(row.operator for row in a), Counter(row.operator for row in b)

    def key(row: Row) -> str:
        return row.operator if max(count_a[row.operator], count_b[row.operator]) == 1 else f"/{row.key}"

    in_b = {key(row): row for row in b}
    both = [(row, in_b[key(row)]) for row in a if key(row) in in_b]
    same = [(one, two) for one, two in both if one.sha256 == two.sha256]
    names_a = {key(row) for row in a}
    return Pairing(
        pairs=tuple((one, two) for one, two in same if _counts(one) and _counts(two)),
        at_limit=tuple((one, two) for one, two in same if _at_limit(one) and _at_limit(two)),
        apart=tuple(
            (one, two)
            for one, two in same
            if not (_counts(one) and _counts(two)) and not (_at_limit(one) and _at_limit(two))
        ),
        other=tuple((one, two) for one, two in both if one.sha256 != two.sha256),
        only_a=tuple(row for row in a if key(row) not in in_b),
        only_b=tuple(row for row in b if key(row) not in names_a),
    )


def _counts(row: Row) -> bool:
    return row.category is Category.COUNTED


def _at_limit(row: Row) -> bool:
    return row.category is Category.AT_LIMIT


def _faster(row: Row, baseline: str) -> bool:
    one = row.over(baseline) if row.correct else None
    return one is not None and one.median > 1.0


def _rates(pairs: Sequence[tuple[Row, Row]], holds: Callable[[Row], bool]) -> Rates | None:
    if not pairs:
        return None
    differences = [float(holds(two)) - float(holds(one)) for one, two in pairs]
    interval = bootstrap([differences], lambda drawn: sum(drawn[0]) / len(drawn[0]))
    return Rates(
        a=sum(holds(one) for one, _ in pairs) / len(pairs),
        b=sum(holds(two) for _, two in pairs) / len(pairs),
        difference=Estimate(sum(differences) / len(pairs), *(interval or ())),
        only_a=tuple(one.operator for one, two in pairs if holds(one) and not holds(two)),
        only_b=tuple(one.operator for one, two in pairs if holds(two) and not holds(one)),
    )


def _ratios(pairs: Sequence[tuple[Row, Row]], baseline: str) -> Ratios:
    found: list[tuple[str, float]] = []
    for one, two in pairs:
        if baseline == "compile" and (one.over_compile is None) != (two.over_compile is None):
            continue  # eager stands for it in one of them
        over_a, over_b = one.over(baseline), two.over(baseline)
        if one.correct and two.correct and over_a and over_b and over_a.median > 0 < over_b.median:
            found.append((one.operator, over_b.median / over_a.median))
    return Ratios(
        operators=len(found),
        mean=_geometric([ratio for _, ratio in found]),
        better=tuple(sorted((one for one in found if one[1] > 1 + MARGIN), key=lambda one: -one[1])),
        worse=tuple(sorted((one for one in found if one[1] < 1 / (1 + MARGIN)), key=lambda one: one[1])),
        same=sum(1 / (1 + MARGIN) <= ratio <= 1 + MARGIN for _, ratio in found),
    )


def _geometric(ratios: Sequence[float]) -> Estimate | None:
    if not ratios:
        return None
    logs = [math.log(one) for one in ratios]
    interval = bootstrap([logs], lambda drawn: math.fsum(drawn[0]) / len(drawn[0]))
    value = math.exp(math.fsum(logs) / len(logs))
    return Estimate(value, math.exp(interval[0]), math.exp(interval[1])) if interval else Estimate(value)


def _differing(pairs: Sequence[tuple[Row, Row]]) -> dict[str, int]:
    found = {
        "rules": sum(bool(one.rules and two.rules) and one.rules != two.rules for one, two in pairs),
        "isolation": sum(
            bool(one.isolation and two.isolation) and one.isolation != two.isolation for one, two in pairs
        ),
        "device": sum(bool(one.device and two.device) and one.device != two.device for one, two in pairs),
    }
    return {name: count for name, count in found.items() if count}
