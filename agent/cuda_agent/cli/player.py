"""Shows the events of a recorded run again, in their own time, faster, or one at a time."""

import time
from collections.abc import Callable
from datetime import datetime

from cuda_agent.history import History
from cuda_agent.trajectory import Listener

LONGEST_S = 3.0
"""No pause is longer, whatever the run was waiting for."""


def play(history: History, listener: Listener, *, speed: float, sleep: Callable[[float], None] = time.sleep) -> None:
    """Hand the events to the listener, waiting between them what the run waited divided by `speed` (0: not at all)."""
    before: datetime | None = None
    for event, when in zip(history.events, history.times, strict=True):
        if before is not None and speed > 0:
            sleep(max(0.0, min(LONGEST_S, (when - before).total_seconds() / speed)))
        listener.on_event(event)
        before = when


def step_through(history: History, show: Callable[[int], bool], ask: Callable[[str], str]) -> None:
    """Show event after event: `show(number)` says whether it printed anything, and only then the person is asked.

    An empty line goes on, `q` or the end of the input leaves.
    """
    for number in range(len(history.events)):
        if not show(number) or number == len(history.events) - 1:
            continue
        try:
            if ask("-- Enter for the next, q to leave: ").strip().lower() in ("q", "quit"):
                return
        except (EOFError, KeyboardInterrupt):
            print()  # behind the question
            return
