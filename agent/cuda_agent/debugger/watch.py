"""Hears everything that is written about a run, and hands it on to whoever listened before."""

import json
from collections.abc import Callable, Sequence

from cuda_agent.loop.stop import Stop, StopReason
from cuda_agent.trajectory import (
    Event,
    Forked,
    Judged,
    Listener,
    Notice,
    Resumed,
    Rewound,
    SandboxStarted,
    StageStarted,
    Stopped,
    Trajectory,
)
from cuda_agent_judge.report import Report

Steps = Callable[[], Sequence[Report]]
"""What the workspace's own commands reported to the judge's records since the last call."""


class Watch:
    """A listener that remembers."""

    def __init__(self, trajectory: Trajectory, steps: Steps, past: Sequence[Event] = ()) -> None:
        self._before: Listener = trajectory.listener
        self._trajectory = trajectory
        self._steps = steps
        self.events: list[Event] = list(past)
        """Of the whole run, those of earlier sessions first."""
        self._seen = len(self.events)
        self.profile: Report | None = None
        """The last one that the model's own command took."""
        trajectory.listener = self

    def close(self) -> None:
        """Listen no more."""
        self._trajectory.listener = self._before

    def on_event(self, event: Event) -> None:
        """Remember it and hand it on."""
        self.events.append(event)
        self._before.on_event(event)

    def on_output(self, data: bytes) -> None:
        """Hand it on."""
        self._before.on_output(data)

    def verdicts(self) -> list[Report]:
        """Return every verdict that counts, oldest first."""
        judged = [event for event in counted(self.events) if isinstance(event, Judged)]
        return [report for event in judged if (report := as_report(event))]

    def news(self) -> list[Event]:
        """Return the events since the last call."""
        fresh = self.events[self._seen :]
        self._seen = len(self.events)
        return fresh

    def reports(self, news: Sequence[Event]) -> list[Report]:
        """Return what the workspace's commands and the host's verdicts among these events said, oldest first."""
        # A verdict is in the judge's records too; the host's own word on it has the better notes.
        own = [report for report in self._steps() if report.command != "verdict"]
        self.profile = next((one for one in reversed(own) if one.command == "profile"), self.profile)
        return [*own, *(report for event in news if isinstance(event, Judged) and (report := as_report(event)))]


def former_end(events: Sequence[Event]) -> Stop | None:
    """Return why a run that was opened again had come to its own end; None where it had not."""
    for event in reversed(events):
        if isinstance(event, Stopped):
            own = event.reason not in ("interrupted", "model_error", "sandbox_lost")
            return Stop(StopReason(event.reason), event.detail) if own and event.reason in set(StopReason) else None
        if not isinstance(event, Resumed | Notice | StageStarted | SandboxStarted | Forked):
            return None
    return None


def counted(events: Sequence[Event]) -> list[Event]:
    """Return the events that still count: what came after a turn that somebody went back to does not."""
    kept: list[Event] = []
    for event in events:
        if isinstance(event, Rewound):
            kept = [one for one in kept if getattr(one, "turn", 0) <= event.turn]
        else:
            kept.append(event)
    return kept


def as_report(event: Judged) -> Report | None:
    """Return the report of a verdict; None where another version wrote it."""
    try:
        return Report.from_json(json.dumps(dict(event.report)))
    except ValueError:
        return None
