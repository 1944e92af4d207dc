"""What Ctrl-C offers in a run that goes by itself at a terminal: go on, debug, stop.

It is asked in the signal's handler: whoever goes on has lost nothing, what was in flight went on meanwhile.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol, TextIO

from cuda_agent.debugger.console import Console
from cuda_agent.debugger.seat import console_for
from cuda_agent.debugger.stepper import Goal
from cuda_agent.loop.stop import Stop, StopReason
from cuda_agent.runs.session import Drive, Session, by_itself

QUESTION = "\nInterrupted. [c]ontinue, [d]ebug or [s]top? (Ctrl-C again leaves at once) "


class View(Protocol):
    """What else writes on the terminal."""

    def quiet(self) -> AbstractContextManager[None]:
        """Leave the terminal alone for the length of a `with` block. Called in a signal's handler."""
        ...

    def settle(self) -> None:
        """From now on print lines only."""
        ...


def drive_for(source: TextIO, out: TextIO, environ: Mapping[str, str], view: View, *, as_json: bool) -> Drive:
    """Return who drives a run: by itself, and at a terminal (and not for a program) with the offer."""
    if as_json or not (source.isatty() and out.isatty()):
        return by_itself

    def question() -> str:
        with view.quiet():
            return ask(source.fileno(), out.fileno())

    def drive_it(session: Session) -> None:
        drive(session, Asker(question), console_for(source, out, environ), view.settle)

    return drive_it


class Asker:
    """Remembers what was answered."""

    def __init__(self, ask: Callable[[], str]) -> None:
        self._ask = ask
        self.wants_debugger = False

    def __call__(self) -> bool:
        """Ask; True means to go on."""
        answer = self._ask()
        self.wants_debugger = answer == "d"
        return answer == "c"


def drive(session: Session, asker: Asker, console: Console, settle: Callable[[], None] = lambda: None) -> None:
    """Let the run go by itself; Ctrl-C asks. `settle` is called before the console takes the terminal."""
    desk = console.open(session)

    def offer() -> bool:
        with session.clock.paused():
            return asker()

    session.signals.ask = offer
    halt = desk.stepper.advance(Goal.CONTINUE)
    session.signals.ask = None
    if asker.wants_debugger and not session.signals.must_leave:
        session.signals.calm()
        settle()
        console.talk(desk, halt)
        return
    desk.watch.close()
    session.agent.finish(desk.stepper.end or Stop(StopReason.INTERRUPTED, "by a signal"))


def ask(source: int, out: int) -> str:
    """Ask until there is an answer: c, d or s. Only the system's own reads and writes: a handler may come anywhere.

    Raises:
        KeyboardInterrupt: Ctrl-C again.
    """
    while True:
        os.write(out, QUESTION.encode())
        data = os.read(source, 1000)
        if not data:
            return "s"
        answer = data.decode("utf-8", "replace").strip().lower()[:1]
        if answer in ("c", "d", "s"):
            return answer
