"""What verdicts beside an idle and a loaded device say: the table of bench/neighbour.py, and what speaks against it."""

import random
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bench.judgements import Line
from bench.null_effect import spread

from cuda_agent_judge.statistics import RESAMPLES, quantile

IDLE, LOADED = "idle", "loaded"
APART = 0.005
ENOUGH = 20
BUSY_AT_LEAST, BUSY_AT_MOST = 90.0, 10.0
"""Percent of the time, of a loaded and of an idle device."""
HEAD = (
    "| operator | idle | loaded | false wins | ms idle | loaded | apart [95 %] | ratio idle | loaded | apart [95 %] |",
    "|" + "---|" * 10,
)
Pair = tuple[float, float]
"""Measured beside an idle and beside a loaded device."""


@dataclass(frozen=True)
class Apart:
    """How far a median is from another, as a share, with its interval."""

    middle: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.middle:+.2f} % [{100 * self.low:+.2f}, {100 * self.high:+.2f}]"


def apart(pairs: Sequence[Pair]) -> Apart | None:
    """The median of what was measured beside a loaded device over that beside an idle one, less 1."""
    if not pairs:
        return None

    def shift(of: Sequence[Pair]) -> float:
        return statistics.median(loaded for _, loaded in of) / statistics.median(idle for idle, _ in of) - 1

    draw = random.Random(len(pairs))
    drawn = [shift(draw.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES)]
    return Apart(shift(pairs), quantile(drawn, 0.025), quantile(drawn, 0.975))


def summary(lines: Sequence[Line]) -> str:
    """What was judged where, the table, and what is shown by it."""
    if not lines:
        return "Nothing was judged."
    names = sorted({line["operator"] for line in lines})
    rows = [row(name, [line for line in lines if line["operator"] == name]) for name in names]
    made = [*about(lines), "", *HEAD, *rows, row("**all**", lines), ""]
    found = faults(lines) or [f"No verdict is a win, and the medians are within {APART:.1%} of each other."]
    if not pairs_of(lines):
        found = [*faults(lines), "There is no pair of verdicts to compare yet."]
    counts = [sum(line["neighbour"] == state and bool(line["ratio"]) for line in lines) for state in (IDLE, LOADED)]
    if min(counts) < ENOUGH:
        numbers = f"{counts[0]} verdicts beside an idle device and {counts[1]} beside a loaded one"
        found.append(f"So far there are {numbers}, of {ENOUGH} each.")
    return "\n".join([*made, *found])


def faults(lines: Sequence[Line]) -> list[str]:
    """What speaks against it, in sentences."""
    found = [f"{wins} of {len(lines)} verdicts are wins."] if (wins := wins_in(lines)) else []
    for what, pairs in (("ms", times(lines)), ("ratio", ratios(lines))):
        shift = apart(pairs)
        if shift is not None and abs(shift.middle) > APART:
            found.append(f"The medians of {what} are further apart than {APART:.1%}: {shift}.")
    for state, least, most in ((IDLE, 0.0, BUSY_AT_MOST), (LOADED, BUSY_AT_LEAST, 100.0)):
        if (busy := busy_in(lines, state)) and not least <= statistics.median(busy) <= most:
            share = f"{statistics.median(busy):.0f} % of the time"
            found.append(f"The device beside was to be {state} and was busy {share}.")
    return found


def about(lines: Sequence[Line]) -> list[str]:
    """Devices, code and load, what the verdicts are, and how busy the other device was."""
    keys = ("target", "on", "beside", "commit")
    target, on, beside, commits = (", ".join(sorted({line[key] for line in lines if line[key]})) for key in keys)
    load = spread([line["load"] for line in lines])
    statuses = ", ".join(f"{count} {what}" for what, count in sorted(Counter(x["status"] for x in lines).items()))
    said = [f"Target `{target}`, judged on {on} beside {beside}, load average {load}, commits {commits}."]
    said.append(f"Verdicts: {statuses}.")
    for state in (IDLE, LOADED):
        if busy := busy_in(lines, state):
            share = f"{statistics.median(busy):.1f} % of the time ({spread(busy)})"
            said.append(f"The device beside, {state}: busy {share}.")
    for key, unit in (("tflop_s", "TFLOP/s of products"), ("gb_s", "GB/s of copies")):
        if rates := [line[key] for line in lines if key in line]:
            said.append(f"Its load: {statistics.median(rates):.4g} {unit} ({min(rates):.4g} to {max(rates):.4g}).")
    return said


def row(name: str, lines: Sequence[Line]) -> str:
    """One line of the table; operators share no ms, so that of all has none."""
    cells = [name, *(str(sum(line["neighbour"] == state for line in lines)) for state in (IDLE, LOADED))]
    cells.append(str(wins_in(lines)))
    alone = len({line["operator"] for line in lines}) == 1
    plain = [(a["ms"]["compile"], b["ms"]["compile"]) for a, b in pairs_of(lines)] if alone else []
    for absolute, compared, form in ((plain, times(lines), ".4g"), (ratios(lines), ratios(lines), ".4f")):
        cells += [format(statistics.median(side), form) for side in zip(*absolute, strict=True)] or ["", ""]
        cells.append(str(apart(compared) or ""))
    return "| " + " | ".join(cells) + " |"


def pairs_of(lines: Sequence[Line]) -> list[tuple[Line, Line]]:
    """Of each operator the n-th verdict beside an idle device and the n-th beside a loaded one, if both have times."""
    found: list[tuple[Line, Line]] = []
    for name in dict.fromkeys(line["operator"] for line in lines):
        mine = [line for line in lines if line["operator"] == name]
        idle, loaded = ([line for line in mine if line["neighbour"] == state] for state in (IDLE, LOADED))
        found += [pair for pair in zip(idle, loaded, strict=False) if all(map(timed, pair))]
    return found


def timed(line: Line) -> bool:
    """Whether a verdict has the numbers."""
    return bool(line["ratio"]) and "compile" in line["ms"]


def ratios(lines: Sequence[Line]) -> list[Pair]:
    """Of each pair the ratios of submission to baseline."""
    return [(idle["ratio"][1], loaded["ratio"][1]) for idle, loaded in pairs_of(lines)]


def times(lines: Sequence[Line]) -> list[Pair]:
    """Of each pair the ms of a call of the baseline, as multiples of the operator's median beside an idle device."""
    pairs = pairs_of(lines)
    idle: dict[str, list[float]] = {}
    for line, _ in pairs:
        idle.setdefault(line["operator"], []).append(line["ms"]["compile"])
    middles = {name: statistics.median(values) for name, values in idle.items()}
    each = [(middles[a["operator"]], a["ms"]["compile"], b["ms"]["compile"]) for a, b in pairs]
    return [(a / middle, b / middle) for middle, a, b in each]


def wins_in(lines: Sequence[Line]) -> int:
    """How many are false: nothing is faster."""
    return sum(line["status"] == "win" for line in lines)


def busy_in(lines: Sequence[Line], state: str) -> list[float]:
    """How busy the device beside was in each verdict, where that is told, in percent."""
    return [line["busy"] for line in lines if line["neighbour"] == state and line["busy"] is not None]
