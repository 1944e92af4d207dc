"""From ratios to a verdict."""

from cuda_agent_judge.report import TARGET_RATIO, Interval, Status, side_name

SLOWER = 1.05
TOO_WIDE = 1.5
"""An interval whose ends differ by more than this factor and that holds both limits says nothing."""


def status_of(ratio: Interval, *, final: bool, fastest: float, disputed: bool = False) -> Status:
    """The status for t_submission / t_baseline: in the loop the median decides, in the end the interval.

    `fastest` is the ratio of the calls that load hardly reached. On a loaded machine a call with several threads takes
    ten times as long whenever one of them must wait, and one process can have the bad luck again and again: what the
    medians say counts only where calls that had no bad luck say it too. With `disputed`, only one of the judge's clocks
    could say that it is slower.
    """
    if final and ratio.high > TOO_WIDE * ratio.low and ratio.low < TARGET_RATIO and ratio.high > SLOWER:
        return "inconclusive"
    if (ratio.high if final else ratio.median) < TARGET_RATIO:
        return "win" if fastest < TARGET_RATIO else "inconclusive"
    if ratio.median > SLOWER:
        return "slower" if fastest > 1 / SLOWER and not disputed else "inconclusive"
    return "tie"


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
