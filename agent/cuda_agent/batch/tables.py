"""A batch's results as Markdown, for results.md and the terminal. Every table says what it is about."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cuda_agent.batch.metrics import BASELINES, FAST_P, Estimate, Metrics, metrics
from cuda_agent.batch.results import Category, Ratio, Row
from cuda_agent_judge.report import side_name

APART = (Category.NOT_COUNTED, Category.UNUSABLE, Category.INFRASTRUCTURE, Category.OPEN)
_MOST_MESSAGE = 200
OVERALL = "all"
POOLED = "all, pooled"


@dataclass(frozen=True)
class Group:
    """One line of the tables."""

    model: str
    level: str
    numbers: Metrics


def grouped(rows: Sequence[Row]) -> list[Group]:
    """Return a group for each model and level, and over all levels: as published, and pooled where that differs."""
    groups = []
    for model in dict.fromkeys(row.model for row in rows):
        of_model = [row for row in rows if row.model == model]
        levels = sorted({row.level for row in of_model})
        if len(levels) > 1:
            for level in levels:
                groups.append(
                    Group(
                        model, f"level {level}" if level else "none", metrics([r for r in of_model if r.level == level])
                    )
                )
            groups.append(Group(model, OVERALL, metrics(of_model, by_level=True)))
            groups.append(Group(model, POOLED, metrics(of_model)))
        else:
            groups.append(Group(model, f"level {levels[0]}" if levels[0] else OVERALL, metrics(of_model)))
    return groups


def as_json(groups: Iterable[Group]) -> list[dict[str, Any]]:
    """Return the groups' numbers for batch.json."""
    found = []
    for group in groups:
        numbers = asdict(group.numbers)
        numbers["fast_p"] = {
            name: {f"{p:.4g}": share for p, share in shares.items()} for name, shares in numbers["fast_p"].items()
        }
        found.append({"model": group.model, "level": group.level, **numbers})
    return found


def conditions(rows: Sequence[Row], settings: Mapping[str, Any], source: str) -> str:
    """Return the line that stands below every table: rules, isolation, device, and where the operators come from."""
    ruled = [row for row in rows if row.rules]
    rules = _common([", ".join(f"{k.replace('_', ' ')} {v}" for k, v in row.rules.items()) for row in ruled])
    if not rules:
        named = ("target", "precision", "libraries", "output_lifetime")
        chosen = {key: settings[key] for key in named if settings.get(key)}
        chosen |= {"precision": "ieee"} if chosen.get("target") == "cpu" else {}
        rules = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in chosen.items())
    isolation = _common([row.isolation for row in ruled]) or "no verdict yet"
    device = _common([row.device for row in rows if row.device])
    parts = [f"Rules: {rules}", f"isolation: {isolation}", f"device: {device}" if device else ""]
    return "; ".join(part for part in (*parts, f"operators: {source}") if part) + "."


def summary_tables(groups: Sequence[Group], below: str) -> str:
    """Return the published numbers, fast_p, and what it took: three tables."""
    parts = [_rates(groups), _fast_p(groups), _spent(groups)]
    return "\n".join("\n".join([*part, "", below, ""]) for part in parts) + _explained(groups)


def operator_table(rows: Sequence[Row], below: str) -> str:
    """Return a line a job."""
    several = len({row.model for row in rows}) > 1
    head = ["operator", *(["model"] if several else []), "level", "outcome", "over torch.compile", "over eager"]
    head += ["submission ms", "what bounds it", "turns", "cost", "time", "stopped"]
    lines = [
        [
            *(_cell(row.operator), *([_cell(row.model)] if several else []), row.level, _outcome(row)),
            *(_ratio(row.over_compile), _ratio(row.over_eager)),
            *(f"{row.latency_ms['submission']:.4g}" if "submission" in row.latency_ms else "", _cell(row.bound)),
            *(str(row.turns or ""), cost(row.cost_usd or 0.0, row.cost_usd is None), duration(row.work_s)),
            _cell(row.stop.replace("_", " ")),
        ]
        for row in rows
    ]
    return "\n".join([*table(head, lines), "", below, ""])


def apart(rows: Sequence[Row]) -> str:
    """Return the operators that no rate is over, and why; "" where there is none."""
    parts = []
    for category in APART:
        found = [row for row in rows if row.category is category]
        if found:
            parts.append(f"{category.value.capitalize()} ({len(found)}):")
            parts += [f"- {_cell(row.job)}{f': {shortened(row.message)}' if row.message else ''}" for row in found]
            parts.append("")
    return "\n".join(parts)


def duration(seconds: float) -> str:
    """Show a time as a person would say it."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02} h"


def counted(number: int, what: str) -> str:
    """Show a number of things."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def _rates(groups: Sequence[Group]) -> list[str]:
    head = ["model", "level", "operators", "counted", "pass"]
    head += [f"faster than {side_name(name)}" for name in BASELINES]
    head += [f"speedup over {side_name(name)}" for name in BASELINES]
    lines = [
        [
            *(_cell(group.model), group.level, str(group.numbers.operators), str(group.numbers.counted)),
            percent(group.numbers.passed),
            *(percent(group.numbers.faster[name]) for name in BASELINES),
            *(times(group.numbers.speedup[name]) for name in BASELINES),
        ]
        for group in groups
    ]
    return table(head, lines)


def _fast_p(groups: Sequence[Group]) -> list[str]:
    head = ["model", "level", *(f"fast_{p:.4g} over {side_name(name)}" for name in BASELINES for p in FAST_P)]
    lines = [
        [
            *(_cell(group.model), group.level),
            *(percent(group.numbers.fast_p[name][p]) for name in BASELINES for p in FAST_P),
        ]
        for group in groups
    ]
    return table(head, lines)


def _spent(groups: Sequence[Group]) -> list[str]:
    head = ["model", "level", *(category.value for category in APART)]
    head += [
        "attempts",
        "infrastructure failures",
        "tokens in",
        "tokens out",
        "cost",
        "time",
        "time of all runs",
        "CPU",
        "held",
        "device busy",
    ]
    lines = []
    for group in groups:
        one = group.numbers
        held = ", ".join(
            f"{key.replace('_', ' ').removesuffix(' s')} {duration(value)}" for key, value in one.held.items()
        )
        lines.append(
            [
                *(_cell(group.model), group.level),
                *(str(one.by_category[category.value]) for category in APART),
                *(str(one.attempts), str(one.failures), str(one.input_tokens), str(one.output_tokens)),
                *(cost(one.cost_usd, bool(one.cost_unknown)), duration(one.elapsed_s), duration(one.work_s)),
                *(duration(one.cpu_s), held, f"{100 * one.busy:.0f} %" if one.busy is not None else ""),
            ]
        )
    return table(head, lines)


def _explained(groups: Sequence[Group]) -> str:
    notes = [
        "Rates are over the counted operators, with Wilson's 95 % intervals; a wrong kernel is not faster.",
        "Speedups are geometric means over right kernels, with 95 % bootstrap intervals over operators (2000 draws).",
        "fast_p is the share with a right kernel more than p times as fast as the baseline.",
    ]
    if any(group.level == POOLED for group in groups):
        notes.append(
            f"`{OVERALL}` weighs each level's speedup by its operators, as published tables do; `{POOLED}` takes all"
            " right kernels alike."
        )
    if eager := max((group.numbers.without_compile for group in groups), default=0):
        notes.append(
            f"torch.compile cannot run {eager} of the operators with a right kernel: eager stands for it there."
        )
    if loose := max((group.numbers.correct - group.numbers.final for group in groups), default=0):
        notes.append(f"{loose} of the right kernels have only a verdict of the loop, not a final one.")
    return "\n".join(notes) + "\n"


def percent(one: Estimate | None, *, interval: bool = True) -> str:
    """Show a share, with its interval."""
    if one is None:
        return "-"
    known = interval and one.low is not None and one.high is not None
    inside = f" [{100 * (one.low or 0.0):.0f}, {100 * (one.high or 0.0):.0f}]" if known else ""
    return f"{100 * one.value:.1f} %{inside}"


def times(one: Estimate | None) -> str:
    """Show a speedup with its interval."""
    if one is None:
        return "-"
    inside = f" [{one.low:.2f}, {one.high:.2f}]" if one.low is not None and one.high is not None else ""
    return f"{one.value:.2f}x{inside}"


def _outcome(row: Row) -> str:
    if row.category is not Category.COUNTED:
        return row.category.value
    return (row.status + ("" if row.final else " (loop)")) if row.correct else "no right kernel"


def _ratio(one: Ratio | None) -> str:
    return f"{one.median:.2f} [{one.low:.2f}, {one.high:.2f}]" if one else ""


def cost(known: float, some_unknown: bool) -> str:
    """Show what it cost, as far as prices are known."""
    if some_unknown:
        return f"${known:.2f} + unknown" if known else "unknown"
    return f"${known:.2f}"


def _common(values: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(filter(None, values)))
    return distinct[0] if len(distinct) == 1 else " / ".join(f"{one} ({values.count(one)})" for one in distinct)


def shortened(text: str) -> str:
    """Return the beginning of a text, in one line."""
    line = " ".join(text.split())
    return line if len(line) <= _MOST_MESSAGE else line[:_MOST_MESSAGE] + " ..."


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    return [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {' | '.join(line)} |" for line in lines)]
