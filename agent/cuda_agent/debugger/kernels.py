"""The kernel as it stood at the end of a turn."""

from collections.abc import Mapping

from cuda_agent.debugger.desk import Desk, whole_number
from cuda_agent.debugger.watch import counted
from cuda_agent.errors import UsageError
from cuda_agent.trajectory import TurnEnded
from cuda_agent.workspace import submission_of

NOW = "now"


def kernel_at(desk: Desk, turn: str) -> Mapping[str, bytes]:
    """Return the submission's files at the end of a turn, or as they are `now`.

    Raises:
        UsageError: there was no such turn, or it is not over.
    """
    if turn == NOW:
        return desk.session.person.submission().files
    number = whole_number(turn, "A turn")
    if number > desk.session.agent.turn:
        raise UsageError(f"Turn {number} is still to come; the run is in turn {desk.session.agent.turn}.")
    ends = [event for event in counted(desk.watch.events) if isinstance(event, TurnEnded) and event.turn == number]
    if not ends:
        raise UsageError(f"Turn {number} is not over; `{NOW}` is the workspace as it is.")
    snapshot = ends[-1].snapshot
    return submission_of(desk.session.workspace.snapshots, snapshot).files if snapshot else {}
