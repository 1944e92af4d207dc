"""From ratios to a verdict."""

from dataclasses import dataclass

from cuda_agent_judge.report import TARGET_RATIO, Interval, Status, side_name

SLOWER = 1.05
TOO_WIDE = 1.5
"""An interval whose ends differ by more than this factor and that holds both limits says nothing."""


@dataclass(frozen=True)
class Doubts:
    """What stands against the medians."""

    fastest: float
    """The ratio of the calls that load hardly reached. On a loaded machine a call with several threads takes ten times
    as long whenever one of them must wait, and one process can have the bad luck again and again."""
    disputed: bool = False
    """Only one of the judge's clocks could say that it is slower."""
    loaded: Interval | None = None
    """Where calls waited for a core: between what the ratio may lie."""


def status_of(ratio: Interval, doubts: Doubts, *, final: bool) -> Status:
    """The status for t_submission / t_baseline: in the loop the median decides, in the end the interval.

    That counts only where the fastest calls say it too and, in the end, both ends of what load leaves possible.
    """
    if final and doubts.loaded is not None and not _bears_out(doubts.loaded, ratio):
        return "inconclusive"
    if final and ratio.high > TOO_WIDE * ratio.low and ratio.low < TARGET_RATIO and ratio.high > SLOWER:
        return "inconclusive"
    if (ratio.high if final else ratio.median) < TARGET_RATIO:
        return "win" if doubts.fastest < TARGET_RATIO else "inconclusive"
    if ratio.median > SLOWER:
        return "slower" if doubts.fastest > 1 / SLOWER and not doubts.disputed else "inconclusive"
    return "tie"


def _bears_out(loaded: Interval, ratio: Interval) -> bool:
    """Whether both ends of what is possible say what the measured ratio says, where it says win or slower."""
    if ratio.high < TARGET_RATIO:
        return loaded.high < TARGET_RATIO
    return ratio.median <= SLOWER or loaded.low > SLOWER


def reason_of(status: Status, ratio: Interval, headline: str) -> str:
    """One sentence on the number behind the status."""
    spread = f"{1 / ratio.median:.3g}x of {side_name(headline)}'s speed [{1 / ratio.high:.3g}, {1 / ratio.low:.3g}]"
    need = f"a win needs the whole interval above {1 / TARGET_RATIO:.3f}x"
    if status == "win":
        return f"the submission is right and runs at {spread}"
    if status == "inconclusive":
        return f"the submission is right but the machine is too noisy to say how fast: {spread}; measure again"
    if status == "slower":
        return f"the submission is right but slower: {spread}"
    if ratio.median < TARGET_RATIO:
        return f"the submission is right and probably fast enough, but not for certain: {spread}; {need}"
    return f"the submission is right and runs at {spread}; {need}"
