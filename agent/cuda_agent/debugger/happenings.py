"""What a person may want to stop at besides calls: read from the judge's reports and the run's limits."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from cuda_agent.loop.memory import headline_speedup
from cuda_agent_judge.report import Report

NEAR = 0.1
"""Of the turns or of the time are left: the limit is near."""
SLOWER = 0.95
"""A speedup below this share of the best so far is a regression; less is noise."""
_MEASURED = frozenset({"win", "tie", "slower", "measured"})


class Happening(StrEnum):
    """Something that `break` can name."""

    FAILED_COMPILE = "failed-compile"
    CORRECT = "correct"
    REGRESSION = "regression"
    NEW_BEST = "new-best"
    LIMIT_NEAR = "limit-near"

    @property
    def once(self) -> bool:
        """Whether only the first one is of interest."""
        return self in (Happening.FAILED_COMPILE, Happening.CORRECT)


MEANING: Mapping[Happening, str] = {
    Happening.FAILED_COMPILE: "the first build that fails",
    Happening.CORRECT: "the first submission with right results",
    Happening.REGRESSION: "a submission that fails after one that passed, or is over 5 % slower than the best",
    Happening.NEW_BEST: "a submission that is faster than all before",
    Happening.LIMIT_NEAR: "a tenth of the turns or of the time is left",
}


@dataclass(frozen=True)
class Limit:
    """How much of something is left."""

    left: float
    whole: float

    @property
    def near(self) -> bool:
        """Whether a tenth or less is left."""
        return self.left <= self.whole * NEAR


class Course:
    """How the submissions of a run did so far; tells what is new in each report."""

    def __init__(self, limits: Callable[[], Sequence[Limit]]) -> None:
        self._limits = limits
        self._best = 0.0
        self._passed = False
        self._was_near = False

    def hear(self, reports: Iterable[Report]) -> list[Happening]:
        """Return what these reports, and the limits by now, mean; each once."""
        found: dict[Happening, None] = {}
        for report in reports:
            found.update(dict.fromkeys(self._of(report)))
        near = any(limit.near for limit in self._limits())
        if near and not self._was_near:
            found[Happening.LIMIT_NEAR] = None
        self._was_near = near
        return list(found)

    def remember(self, verdicts: Iterable[Report]) -> None:
        """Begin anew with these verdicts: a run was opened, or went back."""
        self._best, self._passed, self._was_near = 0.0, False, False
        self.hear(verdicts)

    def _of(self, report: Report) -> list[Happening]:
        if not report.submission_sha256 and not report.speedup and report.passed:
            return []  # the baseline alone
        if not report.passed:
            failed = [Happening.FAILED_COMPILE] if report.status == "compile_error" else []
            broken = self._passed and report.status not in ("inconclusive", "operator_error")
            return [*failed, Happening.REGRESSION] if broken else failed
        if report.status == "compiled":
            return []
        self._passed = True
        return [Happening.CORRECT, *self._speed(report)]

    def _speed(self, report: Report) -> list[Happening]:
        speedup = headline_speedup(report) if report.status in _MEASURED else 0.0
        if speedup <= 0:
            return []
        if speedup > self._best:
            self._best = speedup
            return [Happening.NEW_BEST]
        return [Happening.REGRESSION] if speedup < self._best * SLOWER else []
