"""What an agent and its referee know at the end of a turn: enough to go on from there, in this process or another."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cuda_agent.judging import Submission
from cuda_agent.llm.model import Message, Reply, Usage
from cuda_agent.trajectory import Observation
from cuda_agent_judge.report import Report


@dataclass(frozen=True)
class Turn:
    """One reply and the answers to its calls, in order."""

    number: int
    reply: Reply
    observations: tuple[Observation, ...]


@dataclass(frozen=True)
class Candidate:
    """A submission that passed a verdict."""

    submission: Submission
    snapshot: str
    """The snapshot that holds it."""
    turn: int
    report: Report
    """The final one once there is one."""

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """Order: final wins, then finals, then by speedup."""
        final = self.report.final
        return (final and self.report.status == "win", final, headline_speedup(self.report))


@dataclass(frozen=True)
class Verdicts:
    """What a referee knows. Submissions go by the host's SHA-256 over their names and bytes."""

    finals_left: int
    submission: str | None = None
    """The one noted last; None before any was read."""
    judged: Mapping[str, Report] = field(default_factory=dict)
    """The in-loop verdicts."""
    finals: Mapping[str, Report] = field(default_factory=dict)
    candidates: Mapping[str, Candidate] = field(default_factory=dict)


@dataclass(frozen=True)
class Counts:
    """The loop's small counters."""

    idle: int = 0
    """Replies in a row without a call and without a changed submission."""
    polish_left: int | None = None
    """None until the target is reached."""
    repeats: Mapping[str, int] = field(default_factory=dict)
    """How often a call gave the same result since the submission changed, by their hash."""


@dataclass(frozen=True)
class Memory:
    """Where a run stands."""

    turn: int
    messages: tuple[Message, ...]
    usage: tuple[Usage, ...]
    """Of every reply, those of turns that were gone back over too: they were paid for."""
    counts: Counts
    verdicts: Verdicts
    snapshot: str
    """The newest snapshot; "" before the first."""
    elapsed_s: float = 0.0
    """How long the run took so far, in all processes that worked on it."""
    in_flight: Turn | None = None
    """The turn that was begun and not settled; calls behind the last observation are unanswered."""
    owed_verdict: bool = False
    """A verdict had begun in the turn in flight."""


def headline_speedup(report: Report) -> float:
    """Return the median speedup over the baseline that the status speaks of; 0 where there is none."""
    interval = report.speedup.get(report.headline)
    return interval.median if interval else 0.0
