"""A batch's results for a terminal: the same numbers as in the tables, in lines that fit."""

from collections.abc import Sequence

from cuda_agent.batch.metrics import BASELINES, FAST_P, Metrics
from cuda_agent.batch.results import Category
from cuda_agent.batch.tables import APART, Group, cost, counted, duration, passed, percent, times
from cuda_agent_judge.report import side_name


def brief(groups: Sequence[Group], conditions: str) -> str:
    """Return a few lines for each model and level, and what all of them are about."""
    return "\n".join([*(line for group in groups for line in _group(group)), conditions])


def _group(group: Group) -> list[str]:
    one = group.numbers
    apart = [f"{one.by_category[name]} {name.value}" for name in APART if one.by_category[name]]
    operators = f"{counted(one.operators, 'operator')}, {one.by_category[Category.COUNTED]} counted"
    lines = [f"{group.model}, {group.level}: {operators}{f' ({", ".join(apart)})' if apart else ''}"]
    lines.append(f"  right kernel        {passed(one)}")
    lines += [line for baseline in BASELINES for line in _against(one, baseline)]
    used = [counted(one.attempts, "attempt"), f"{one.failures} failed by the machinery"]
    used += [f"{one.input_tokens + one.output_tokens} tokens", cost(one.cost_usd, bool(one.cost_unknown))]
    used += [duration(one.elapsed_s)] + ([f"device busy {100 * one.busy:.0f} %"] if one.busy is not None else [])
    return [*lines, f"  it took             {', '.join(used)}"]


def _against(one: Metrics, baseline: str) -> list[str]:
    shares = [f"{p:.4g}: {percent(one.fast_p[baseline][p], interval=False)}" for p in FAST_P]
    faster, speedup = percent(one.faster[baseline]), times(one.speedup[baseline])
    return [
        f"  over {side_name(baseline):<14} faster {faster}, speedup {speedup}",
        f"  {'':<19} fast_p  {', '.join(shares)}",
    ]
