"""Takes the host's own verdicts, decides which submission is the best, and keeps it.

In-loop verdicts are quick. Where one says that the target is reached a final one is taken, and only that counts.
"""

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from cuda_agent.judging import VERDICT_TIMEOUT_S, Submission
from cuda_agent.loop.stop import TimeLeft
from cuda_agent.run_dir import RunDir
from cuda_agent.trajectory import Judged, SnapshotTaken, StageStarted, Trajectory
from cuda_agent_judge.report import TARGET_RATIO, Report

_REFUTING = frozenset(
    {"incorrect", "compile_error", "runtime_error", "timeout", "policy", "tampering", "not_counted", "operator_error"}
)


@dataclass(frozen=True)
class Candidate:
    """A submission that passed a verdict."""

    submission: Submission
    manifest: str
    turn: int
    report: Report
    """The final one once there is one."""

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """Order: final wins, then finals, then by speedup."""
        final = self.report.final
        return (final and self.report.status == "win", final, headline_speedup(self.report))


class Judging(Protocol):
    """What a referee needs of the judge (`cuda_agent.judging.Judge`)."""

    def verdict(self, *, timeout_s: float, on_output: Callable[[bytes], None] | None = None) -> Report:
        """Judge what is in the workspace now."""
        ...

    def final_verdict(
        self, submission: Submission, *, timeout_s: float, on_output: Callable[[bytes], None] | None = None
    ) -> Report:
        """Judge these files in a clean build."""
        ...

    def new_profiles(self) -> list[Report]:
        """Return the passing profiles since the last call."""
        ...


class Referee:
    """The verdicts of one run."""

    def __init__(
        self,
        judge: Judging,
        run: RunDir,
        trajectory: Trajectory,
        *,
        finals: int = 3,
        time_left: TimeLeft = lambda: math.inf,
    ) -> None:
        self._judge = judge
        self._run = run
        self._trajectory = trajectory
        self.finals_left = finals
        self._time_left = time_left
        self._last_sha: str | None = None
        self._manifest = ""
        self._judged: dict[str, Report] = {}
        self._judged_hashes: set[str] = set()
        self._candidates: dict[str, Candidate] = {}
        self._finals: dict[str, Report] = {}
        self._kept: Report | None = None
        self._slowest_s = 0.0
        self.polishing = False

    @property
    def best(self) -> Candidate | None:
        """The best submission so far; a final verdict outranks an in-loop one."""
        return max(self._candidates.values(), key=lambda one: one.rank, default=None)

    @property
    def won(self) -> bool:
        """Whether a final verdict was a win."""
        return any(report.status == "win" for report in self._finals.values())

    @property
    def reserve_s(self) -> float:
        """How much time to keep back for the final verdict of what is the best so far."""
        return 2 * self._slowest_s if self._closing_candidate() else 0.0

    def note(self, turn: int, submission: Submission) -> bool:
        """Keep the submission if it changed in this turn, and say whether it did."""
        if submission.sha256 == self._last_sha:
            return False
        changed = self._last_sha is not None or submission.exists
        self._last_sha = submission.sha256
        if changed:
            self._manifest = self._run.snapshot(turn, submission.files)
            self._trajectory.add(SnapshotTaken(turn, self._manifest, submission.sha256))
        return changed

    def after_calls(self, turn: int, submission: Submission) -> Report | None:
        """Take a verdict if a judge command recorded a passing profile of something not judged yet."""
        hashes = {report.submission_sha256 for report in self._judge.new_profiles()}
        if not hashes - self._judged_hashes or not submission.exists:
            return None
        self._judged_hashes |= hashes
        return self.judge(turn, submission)

    def judge(self, turn: int, submission: Submission) -> Report:
        """Take an in-loop verdict, and a final one where that says the target is reached.

        The same submission is not judged twice: the last verdict on it is returned.
        """
        known = self._finals.get(submission.sha256) or self._judged.get(submission.sha256)
        if known is not None:
            return known
        report = self._take(turn, submission, "verdict")
        self._judged[submission.sha256] = report
        self._judged_hashes.add(report.submission_sha256)
        self._judge.new_profiles()  # the verdict recorded itself: not a profile of the model's
        if report.passed:
            self._candidates[submission.sha256] = Candidate(submission, self._manifest, turn, report)
            self._keep_best()
        if report.passed and reaches_target(report) and self.finals_left > 0 and not self.polishing:
            self.finals_left -= 1
            return self._final(turn, submission)
        return report

    def close(self, turn: int) -> None:
        """Give the best submission a final verdict if it has none, so that the number shown is a final one."""
        for _ in range(2):
            candidate = self._closing_candidate()
            if candidate is None or self._time_left() <= 0:
                return
            report = self._final(turn, candidate.submission)
            if report.status not in _REFUTING:
                return

    def _closing_candidate(self) -> Candidate | None:
        """Return the fastest submission without a final verdict, if no final one is as fast."""
        open_ones = [one for sha, one in self._candidates.items() if sha not in self._finals]
        fastest = max(open_ones, key=lambda one: one.rank, default=None)
        done = [headline_speedup(one.report) for one in self._candidates.values() if one.report.final]
        if fastest is None or headline_speedup(fastest.report) <= max(done, default=0.0):
            return None
        return fastest

    def _final(self, turn: int, submission: Submission) -> Report:
        report = self._take(turn, submission, "final verdict")
        sha = submission.sha256
        self._finals[sha] = report
        if report.passed:
            self._candidates[sha] = replace(self._candidates[sha], report=report)
        elif report.status in _REFUTING:
            del self._candidates[sha]
        self._keep_best()
        return report

    def _take(self, turn: int, submission: Submission, kind: Literal["verdict", "final verdict"]) -> Report:
        self._trajectory.add(StageStarted(turn, kind))
        start = time.monotonic()
        timeout_s = max(1.0, min(VERDICT_TIMEOUT_S, self._time_left()))
        output = self._trajectory.listener.on_output
        if kind == "final verdict":
            report = self._judge.final_verdict(submission, timeout_s=timeout_s, on_output=output)
            # A final verdict sees the submission alone; what the workspace was like stands in the first one.
            before = self._judged[submission.sha256].notes
            report = replace(report, notes=[*report.notes, *(note for note in before if note not in report.notes)])
        else:
            report = self._judge.verdict(timeout_s=timeout_s, on_output=output)
        self._slowest_s = max(self._slowest_s, time.monotonic() - start)
        self._trajectory.add(Judged(turn, _plain(report), self._manifest_of(submission)))
        return report

    def _manifest_of(self, submission: Submission) -> str:
        candidate = self._candidates.get(submission.sha256)
        return candidate.manifest if candidate else self._manifest

    def _keep_best(self) -> None:
        best = self.best
        if best is None:
            self._run.drop_best()
            self._kept = None
        elif best.report is not self._kept:
            self._run.keep_best(best.submission.files, best.report.to_json())
            self._kept = best.report


def headline_speedup(report: Report) -> float:
    """Return the median speedup over the baseline that the status speaks of; 0 where there is none."""
    interval = report.speedup.get(report.headline)
    return interval.median if interval else 0.0


def reaches_target(report: Report) -> bool:
    """Say whether the median time is at most the target's share of the baseline's."""
    return headline_speedup(report) >= 1 / TARGET_RATIO


def _plain(report: Report) -> dict[str, object]:
    plain: dict[str, object] = json.loads(report.to_json())
    return plain
