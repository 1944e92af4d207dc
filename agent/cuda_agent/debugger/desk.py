"""What the debugger's commands work on: the run, the stepper above it, and the person's terminal."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cuda_agent.debugger.happenings import Limit
from cuda_agent.debugger.screen import call_lines, plain
from cuda_agent.debugger.stepper import INTERRUPTED, Halt, Stepper
from cuda_agent.debugger.watch import Watch
from cuda_agent.errors import UsageError
from cuda_agent.runs.session import Session


class Editor(Protocol):
    """Lets a person edit a text."""

    def __call__(self, text: str, *, suffix: str) -> str:
        """Return the text as the person left it.

        Raises:
            UsageError: there is no terminal for an editor, or the editor failed.
        """
        ...


@dataclass
class Desk:
    """One open run in front of a person."""

    session: Session
    stepper: Stepper
    watch: Watch
    write: Callable[[str], None]
    """Prints a text as it is; whoever calls it has made it plain."""
    edit_text: Editor
    leaving: bool = False
    """The person is done with this run."""
    follow: Path | None = None
    """A run to open next."""

    def show_position(self, halt: Halt) -> None:
        """Say where the run stands and why."""
        if halt.why:
            self.write("* Interrupted." if halt.why == INTERRUPTED else f"* Stopped at: {plain(halt.why)}")
        stepper = self.stepper
        if stepper.end is not None:
            detail = f" ({plain(stepper.end.detail)})" if stepper.end.detail else ""
            self.write(f"* The run is over: {stepper.end.reason}{detail}.")
            self.write("  continue ends it; back, goto, fork, say and set go another way.")
        elif stepper.pending is None:
            turn = self.session.agent.turn
            self.write(f"> {f'turn {turn} is over' if turn else 'no turn was taken yet'}; the model is asked next")
        else:
            place, count = stepper.place
            self.write(f"> turn {self.session.agent.turn}, call {place} of {count}: {plain(stepper.pending.name)}")
            for line in call_lines(stepper.pending):
                self.write(line)


def limits_of(session: Session) -> Sequence[Limit]:
    """Return what is left of turns and time."""
    limits = session.agent.limits
    found = [Limit(limits.max_turns - session.agent.turn, limits.max_turns)]
    if session.clock.limit_s is not None:
        found.append(Limit(session.clock.left(), session.clock.limit_s))
    return found


def whole_number(text: str, what: str, *, least: int = 0) -> int:
    """Read a number that a person typed.

    Raises:
        UsageError: it is none, or too small.
    """
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < least:
        raise UsageError(f"{what} must be a whole number from {least} on{f', not {text!r}' if text else ''}.")
    return int(text)
