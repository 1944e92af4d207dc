"""Commands that go to another turn, or start another run from it."""

from cuda_agent.debugger.desk import Desk
from cuda_agent.debugger.stepper import Halt
from cuda_agent.errors import UsageError


def back(desk: Desk, rest: str) -> Halt | None:
    """Go back some turns."""
    raise UsageError("back is not there yet.")


def goto(desk: Desk, rest: str) -> Halt | None:
    """Go to the end of a turn."""
    raise UsageError("goto is not there yet.")


def fork(desk: Desk, rest: str) -> Halt | None:
    """Start another run from a turn."""
    raise UsageError("fork is not there yet.")
