"""Keeps the workspace and writes down that it changed."""

from collections.abc import Callable

from cuda_agent.trajectory import SnapshotTaken, Trajectory
from cuda_agent.workspace import Captured

SHOWN = 10
"""So many names that were not kept are in an event."""


class Keeping:
    """The snapshots of one run, as its events tell of them."""

    def __init__(self, capture: Callable[[int], Captured], trajectory: Trajectory) -> None:
        self._capture = capture
        self._trajectory = trajectory
        self.snapshot = ""
        """The newest one that an event told of."""

    def keep(self, turn: int) -> Captured:
        """Capture the workspace; an event tells of it if it changed.

        Raises:
            WorkspaceError, DiskError, SandboxLost: it could not be read or kept.
        """
        now = self._capture(turn)
        if now.snapshot != self.snapshot:
            event = SnapshotTaken(
                turn, now.snapshot, now.submission.sha256, now.changed, now.removed, now.skipped[:SHOWN]
            )
            self._trajectory.add(event)
            self.snapshot = now.snapshot
        return now
