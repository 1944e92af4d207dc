"""Takes the host's own verdicts, decides which submission is the best, and keeps it.

In-loop verdicts are quick. Where one says that the target is reached a final one is taken, and only that counts.
"""

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, Protocol

from cuda_agent.judging import VERDICT_TIMEOUT_S, Submission
from cuda_agent.loop.memory import Candidate, Verdicts, headline_speedup
from cuda_agent.loop.stop import TimeLeft
from cuda_agent.run_dir import RunDir
from cuda_agent.trajectory import Judged, StageStarted, Trajectory
from cuda_agent.workspace import Captured
from cuda_agent_judge.report import TARGET_RATIO, Report

_REFUTING = frozenset(
    {"incorrect", "compile_error", "runtime_error", "timeout", "policy", "tampering", "not_counted", "operator_error"}
)
_BEYOND_LIMIT = 1.02
"""A submission with this speedup shows that the baseline was not at the hardware's limit."""


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
        """Return the passing profiles since the last call, of baselines alone too."""
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
        self._noted: str | None = None
        self._judged: dict[str, Report] = {}
        self._judged_hashes: set[str] = set()
        self._candidates: dict[str, Candidate] = {}
        self._finals: dict[str, Report] = {}
        self._kept: Report | None = None
        self._limit = ""
        self.slowest_s = 0.0
        """Of the verdicts taken so far."""
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
    def at_limit(self) -> str:
        """Why no kernel can win; "" where one may, and where one is faster than that allows."""
        faster = any(headline_speedup(one.report) > _BEYOND_LIMIT for one in self._candidates.values())
        return "" if faster else self._limit

    @property
    def reserve_s(self) -> float:
        """How much time to keep back for the final verdict of what is the best so far."""
        return 2 * self.slowest_s if self._closing_candidate() else 0.0

    def memory(self) -> Verdicts:
        """Return what it knows."""
        known = dict(self._judged), dict(self._finals), dict(self._candidates)
        return Verdicts(self.finals_left, self._noted, *known, slowest_s=self.slowest_s)

    def restore(self, verdicts: Verdicts) -> None:
        """Know this and nothing else; best/ follows.

        Raises:
            DiskError: best/ could not be written.
        """
        self.finals_left = verdicts.finals_left
        self._noted = verdicts.submission
        self._judged, self._finals = dict(verdicts.judged), dict(verdicts.finals)
        self._candidates = dict(verdicts.candidates)
        self.slowest_s = max(self.slowest_s, verdicts.slowest_s)
        self._judged_hashes = {report.submission_sha256 for report in self._judged.values()}
        self._kept = None
        self._limit = ""
        self.polishing = self.won
        self._keep_best()

    @property
    def noted(self) -> str:
        """SHA-256 of the submission as it was noted last; "" before any was."""
        return self._noted or ""

    def note(self, submission: Submission) -> bool:
        """Say whether the submission changed since it was noted last."""
        changed = has_changed(self._noted, submission.sha256)
        self._noted = submission.sha256
        return changed

    def after_calls(self, turn: int, now: Captured) -> Report | None:
        """Take a verdict if a judge command recorded a passing profile of something not judged yet."""
        profiles = self._judge.new_profiles()
        self._hear_of_limit(profiles)
        hashes = {report.submission_sha256 for report in profiles if report.speedup}
        if not hashes - self._judged_hashes or not now.submission.exists:
            return None
        self._judged_hashes |= hashes
        return self.judge(turn, now)

    def _hear_of_limit(self, reports: Sequence[Report]) -> None:
        for report in reports:
            if report.performance is not None:
                self._limit = report.at_limit

    def judge(self, turn: int, now: Captured) -> Report:
        """Take an in-loop verdict, and a final one where that says the target is reached.

        The same submission is not judged twice: the last verdict on it is returned.
        """
        submission = now.submission
        sha = submission.sha256
        known = self._finals.get(sha) or self._judged.get(sha)
        if known is None:
            known = self._judged[sha] = self._take(turn, submission, now.snapshot, "verdict")
            self._judged_hashes.add(known.submission_sha256)
            self._judge.new_profiles()  # the verdict recorded itself: not a profile of the model's
            if known.passed:
                self._candidates[sha] = Candidate(submission, now.snapshot, turn, known)
                self._keep_best()
        if self._deserves_final(sha, known):
            self.finals_left -= 1
            return self._final(turn, submission)
        return known

    def _deserves_final(self, sha: str, report: Report) -> bool:
        open_one = sha in self._candidates and sha not in self._finals
        return open_one and reaches_target(report) and self.finals_left > 0 and not self.polishing

    def close(self, turn: int) -> None:
        """Give the best submission a final verdict if it has none, so that the number shown is a final one."""
        for _ in range(2):
            candidate = self._closing_candidate()
            if candidate is None or self._time_left() <= 0:
                return
            report = self._final(turn, candidate.submission)
            if not is_refuting(report):
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
        sha = submission.sha256
        report = self._take(turn, submission, self._candidates[sha].snapshot, "final verdict")
        self._finals[sha] = report
        if report.passed:
            self._candidates[sha] = replace(self._candidates[sha], report=report)
        elif is_refuting(report):
            del self._candidates[sha]
        self._keep_best()
        return report

    def _take(
        self, turn: int, submission: Submission, snapshot: str, kind: Literal["verdict", "final verdict"]
    ) -> Report:
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
        self.slowest_s = max(self.slowest_s, time.monotonic() - start)
        self._hear_of_limit([report])
        self._trajectory.add(Judged(turn, _plain(report), snapshot))
        return report

    def _keep_best(self) -> None:
        best = self.best
        if best is None:
            self._run.drop_best()
            self._kept = None
        elif best.report is not self._kept:
            self._run.keep_best(best.submission.files, best.report.to_json())
            self._kept = best.report


def reaches_target(report: Report) -> bool:
    """Say whether the median time is at most the target's share of the baseline's."""
    return headline_speedup(report) >= 1 / TARGET_RATIO


def is_refuting(report: Report) -> bool:
    """Say whether a final verdict takes a submission out of the running."""
    return report.status in _REFUTING


def has_changed(noted: str | None, sha256: str) -> bool:
    """Say whether a submission differs from the one noted last; none at all, at first, is no change."""
    return sha256 != noted and (noted is not None or sha256 != Submission({}).sha256)


def _plain(report: Report) -> dict[str, object]:
    plain: dict[str, object] = json.loads(report.to_json())
    return plain
