"""The kernel as it stood at the end of a turn."""

from collections.abc import Mapping

from cuda_agent.debugger.desk import Desk, whole_number
from cuda_agent.debugger.watch import counted
from cuda_agent.errors import UsageError
from cuda_agent.trajectory import SnapshotTaken

NOW = "now"


def kernel_at(desk: Desk, turn: str) -> Mapping[str, bytes]:
    """Return the submission's files at the end of a turn, or as they are `now`.

    Raises:
        UsageError: there was no such turn.
    """
    if turn == NOW:
        return desk.session.person.submission().files
    number = whole_number(turn, "A turn")
    if number > desk.session.agent.turn:
        raise UsageError(f"Turn {number} is still to come; the run is in turn {desk.session.agent.turn}.")
    kept = [event for event in counted(desk.watch.events) if isinstance(event, SnapshotTaken) and event.turn <= number]
    return desk.session.run.load_snapshot(kept[-1].manifest) if kept else {}
