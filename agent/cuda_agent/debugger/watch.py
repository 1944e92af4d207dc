"""Hears everything that is written about a run, and hands it on to whoever listened before."""

import json
from collections.abc import Callable, Sequence

from cuda_agent.trajectory import Event, Judged, Listener, Trajectory
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

    def news(self) -> list[Event]:
        """Return the events since the last call."""
        fresh = self.events[self._seen :]
        self._seen = len(self.events)
        return fresh

    def reports(self, news: Sequence[Event]) -> list[Report]:
        """Return what the workspace's commands and the host's verdicts among these events said, oldest first."""
        # A verdict is in the judge's records too; the host's own word on it has the better notes.
        own = [report for report in self._steps() if report.command != "verdict"]
        return [*own, *(report for event in news if isinstance(event, Judged) and (report := as_report(event)))]


def as_report(event: Judged) -> Report | None:
    """Return the report of a verdict; None where another version wrote it."""
    try:
        return Report.from_json(json.dumps(dict(event.report)))
    except ValueError:
        return None
