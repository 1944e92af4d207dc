"""What a person sees of a batch: how far it is, how fast, until when, and a row for each run at work.

Plain text of a given width; how that gets onto a terminal is `batch_view.py`'s business. What is held in memory is a
few numbers for each run at work, however many there are in all.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cuda_agent.batch.faults import Fault, Verdict
from cuda_agent.batch.jobs import Job
from cuda_agent.batch.tables import duration, shortened
from cuda_agent.batch.trail import Trail
from cuda_agent.cli.standing import Standing
from cuda_agent_judge.report import side_name

_RATE_OVER = 32
"""The rate is that of so many runs that ended last: it follows when runs get longer."""
_LEAST_ENDED = 2
"""Before so many ended, nothing is said of the rate."""


class AtWork:
    """One run at work, as its trajectory tells it."""

    def __init__(self, job: Job, run: Path, now: float) -> None:
        self.job = job
        self.since = now
        self.stage = "start"
        self.turn = 0
        self._trail = Trail(run / "trajectory.jsonl")
        self._standing = Standing()
        self._cost: float | None = 0.0

    @property
    def best(self) -> str:
        """The best speedup so far, for people."""
        return "" if self._standing.best is None else f"{self._standing.best:.3g}x"

    @property
    def cost(self) -> str:
        """What the model cost so far, for people."""
        return "unknown" if self._cost is None else f"${self._cost:.2f}"

    def follow(self) -> None:
        """Read what is new."""
        for event in self._trail.new_events():
            self._hear(event)

    def _hear(self, event: Mapping[str, Any]) -> None:
        turn = event.get("turn")
        self.turn = turn if isinstance(turn, int) else self.turn
        match event.get("type"):
            case "stage":
                self.stage = str(event.get("name", ""))
            case "tool_call":
                self.stage = str(event.get("name", ""))
            case "message" if event.get("role") == "assistant":
                cost = (event.get("usage") or {}).get("cost_usd")
                self._cost = None if cost is None or self._cost is None else self._cost + float(cost)
            case "verdict" if isinstance(event.get("report"), Mapping):
                self._standing.hear(event["report"])
            case "stopped":
                self.stage = "ending"


class Board:
    """The state of a batch as the conductor tells it."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.total = self.done = 0
        """Of all jobs, those of earlier processes too."""
        self._before = 0
        self._start = clock()
        self._ends: deque[float] = deque([self._start], maxlen=_RATE_OVER)
        self.at_work: dict[str, AtWork] = {}
        self.won = self.failed = 0
        self._cost = 0.0

    def planned(self, *, total: int, left: int) -> None:
        """Jobs there are, and those left to do."""
        self.total, self.done = total, total - left
        self._before = self.done
        self._start = self.clock()
        self._ends.clear()
        self._ends.append(self._start)

    def began(self, job: Job, run: Path) -> None:
        """A run begins or goes on."""
        self.at_work[job.name] = AtWork(job, run, self.clock())

    def ended(self, job: Job, verdict: Verdict, document: Mapping[str, Any] | None, *, again: bool) -> None:
        """An attempt ended."""
        self.at_work.pop(job.name, None)
        if not again:
            self.done += 1
            self._ends.append(self.clock())
            result = (document or {}).get("result") or {}
            self.won += result.get("status") == "win" and bool(result.get("final"))
            self.failed += verdict.fault is not Fault.NONE
            self._cost += ((document or {}).get("usage") or {}).get("cost_usd") or 0.0

    def follow(self) -> None:
        """Read what the runs at work wrote."""
        for one in self.at_work.values():
            one.follow()

    @property
    def rate_per_s(self) -> float | None:
        """Runs a second; None while too few ended."""
        span = self._ends[-1] - self._ends[0]
        return (len(self._ends) - 1) / span if len(self._ends) > _LEAST_ENDED and span > 0 else None

    @property
    def standing(self) -> str:
        """Where the batch is, in one line."""
        now = " now" if self._before else ""
        parts = [f"{self.done}/{self.total}", f"{self.won} won{now}", f"{self.failed} failed{now}"]
        parts += [f"${self._cost:.2f}"] if self._cost else []
        return ", ".join([*parts, self.forecast])

    @property
    def forecast(self) -> str:
        """The rate and how long it will take, in a few words."""
        rate = self.rate_per_s
        if rate is None:
            return f"{duration(self.clock() - self._start)} so far"
        an_hour = f"{3600 * rate:.0f}" if 3600 * rate >= 100 else f"{3600 * rate:.2g}"
        return f"{an_hour} an hour, about {duration((self.total - self.done) / rate)} left"

    def table(self, most: int) -> list[tuple[str, ...]]:
        """Return a row for each run at work: operator, stage, turn, best, cost, time."""
        now = self.clock()
        found: list[tuple[str, ...]] = [
            (one.job.name, one.stage, str(one.turn), one.best, one.cost, duration(now - one.since))
            for one in [*self.at_work.values()][:most]
        ]
        more = len(self.at_work) - len(found)
        return [*found, (f"and {more} more", "", "", "", "", "")] if more > 0 else found


def ended_line(job: Job, verdict: Verdict, document: Mapping[str, Any] | None, *, again: bool) -> str:
    """Say how an attempt ended, in one line."""
    if verdict.fault is not Fault.NONE:
        who = {Fault.OPERATOR: "the operator cannot be used", Fault.STOPPED: "stopped"}
        what = who.get(verdict.fault, "failed") + (f": {shortened(verdict.message)}" if verdict.message else "")
        return f"{job.name}: {what}{' (again later)' if again and verdict.fault is Fault.INFRASTRUCTURE else ''}"
    result = (document or {}).get("result") or {}
    stop = str(((document or {}).get("stop") or {}).get("reason", "")).replace("_", " ")
    turns = f"{(document or {}).get('turns', 0)} turns"
    headline = result.get("headline", "compile")
    one = (result.get("speedup") or {}).get(headline)
    loop = "" if result.get("final") else " in the loop"
    none = "no kernel can win" if stop == "at hardware limit" else "no right kernel"
    said = f"{result['status']}{loop}, {one['median']:.3g}x over {side_name(headline)}" if one else none
    return f"{job.name}: {said} ({stop}, {turns})"
