"""A comparison of two batches in Markdown."""

from collections.abc import Sequence

from cuda_agent.batch.comparing import MARGIN, Comparison, Rates, Ratios
from cuda_agent.batch.jobs import first_of
from cuda_agent.batch.metrics import BASELINES, Estimate
from cuda_agent.batch.results import Category, Row
from cuda_agent.batch.tables import outcome, table, times
from cuda_agent_judge.report import side_name

_MOST_LISTED = 10


def comparison_text(one: Comparison, name_a: str, name_b: str, below: Sequence[str]) -> str:
    """Return the whole text; `below` are the conditions of both, which stand below every table."""
    pairing = one.pairing
    if not pairing.pairs:
        return "\n".join(["No operator counts in both batches: there is nothing to compare.", *_rest(one), *below])
    head = f"{len(pairing.pairs)} operators count in both. A is {name_a}, B is {name_b}."
    parts = [head, ""]
    parts += [f"Not the same {what} in {count} of them: read the ratios with care." for what, count in
              one.differing_conditions.items()]  # fmt: skip
    parts += [*_rates_table(one), "", *below, "", *_ratios_table(one), "", *below, ""]
    parts.append("Intervals are 95 %, by a bootstrap over operators, each drawn with what both batches made of it.")
    for words, rates in (("have a right kernel", one.passed), ("are faster than torch.compile", one.faster["compile"])):
        if rates:
            parts += _listed(f"Only in A {words}", rates.only_a) + _listed(f"Only in B {words}", rates.only_b)
    ratios = one.ratios["compile"]
    parts += _listed("B is ahead", [f"{name} {ratio:.2f}x" for name, ratio in ratios.better])
    parts += _listed("B is behind", [f"{name} {ratio:.2f}x" for name, ratio in ratios.worse])
    return "\n".join([*parts, *_rest(one)])


def _rates_table(one: Comparison) -> list[str]:
    lines = [_rate("right kernel", one.passed)]
    lines += [_rate(f"faster than {side_name(name)}", one.faster[name]) for name in BASELINES]
    return table(["", "A", "B", "B less A", "only in A", "only in B"], [line for line in lines if line])


def _rate(name: str, rates: Rates | None) -> list[str]:
    if rates is None:
        return []
    shares = [f"{100 * rates.a:.1f} %", f"{100 * rates.b:.1f} %", _points(rates.difference)]
    return [name, *shares, str(len(rates.only_a)), str(len(rates.only_b))]


def _points(one: Estimate) -> str:
    inside = f" [{100 * one.low:+.0f}, {100 * one.high:+.0f}]" if one.low is not None and one.high is not None else ""
    return f"{100 * one.value:+.1f}{inside}"


def _ratios_table(one: Comparison) -> list[str]:
    head = ["B's speedup over A's", "both right", "geometric mean"]
    head += [f"B ahead by over {100 * MARGIN:.0f} %", "within", "behind"]
    return table(head, [_ratio(f"against {side_name(name)}", one.ratios[name]) for name in BASELINES])


def _ratio(name: str, one: Ratios) -> list[str]:
    return [name, str(one.operators), times(one.mean), str(len(one.better)), str(one.same), str(len(one.worse))]


def _rest(one: Comparison) -> list[str]:
    pairing = one.pairing
    lines = _listed("Only A has", [row.operator for row in pairing.only_a])
    lines += _listed("Only B has", [row.operator for row in pairing.only_b])
    lines += _listed("The same name for another operator", [row.operator for row, _ in pairing.other])
    lines += _listed("At the hardware's limit in both", [row.operator for row, _ in pairing.at_limit])
    return lines + _listed("Not counted in both", [_apart(*rows) for rows in pairing.apart])


def _apart(a: Row, b: Row) -> str:
    return f"{a.operator} ({_standing(a, b)} / {_standing(b, a)})"


def _standing(row: Row, other: Row) -> str:
    """Beside one that ended because no kernel can win, what the other made of the operator is of interest."""
    if row.category is Category.COUNTED and other.category is Category.AT_LIMIT:
        return outcome(row)
    return row.category.value


def _listed(what: str, names: Sequence[str]) -> list[str]:
    return [f"{what} ({len(names)}): {first_of(names, _MOST_LISTED)}"] if names else []
