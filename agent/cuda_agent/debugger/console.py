"""The debugger's terminal: shows where the run stands, reads a command, does it. A mistake never ends the session."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cuda_agent.debugger.breakpoints import Breakpoints
from cuda_agent.debugger.commands import COMMANDS, Command, find
from cuda_agent.debugger.desk import Desk, Editor, limits_of
from cuda_agent.debugger.happenings import Course
from cuda_agent.debugger.lines import Lines, Words
from cuda_agent.debugger.screen import one_line, paragraph, plain
from cuda_agent.debugger.stepper import Halt, Stepper
from cuda_agent.debugger.travelling import go
from cuda_agent.debugger.watch import Watch, former_end
from cuda_agent.errors import CudaAgentError
from cuda_agent.history import read
from cuda_agent.loop.stop import Stop, StopReason
from cuda_agent.runs.session import Session
from cuda_agent.runs.signals import Signals
from cuda_agent_tools.sandbox import SandboxError, SandboxLost

PROMPT = "(cuda-agent) "


@dataclass
class Console:
    """Whoever debugs: one for all the runs that are opened one after the other."""

    make_lines: Callable[[Words], Lines]
    write: Callable[[str], None]
    edit_text: Editor
    breakpoints: Breakpoints = field(default_factory=Breakpoints)
    at: int | None = None
    """The run that is opened is to be taken to the end of this turn."""
    follow: Path | None = None
    """A run that is to be opened next."""
    _signals: Signals | None = None

    @property
    def next(self) -> Path | None:
        """The run to open now; none where a signal came while the last one was put away."""
        told_to_leave = self._signals is not None and self._signals.received > 0
        return None if told_to_leave else self.follow

    def drive(self, session: Session) -> None:
        """Take the turns of a run as a person wants them."""
        self._signals = session.signals
        desk = self.open(session)
        if self.at is not None:
            at, self.at = self.at, None
            go(desk, at)
        else:
            desk.stepper.end = former_end(desk.watch.events)
        self.talk(desk, Halt())

    def open(self, session: Session) -> Desk:
        """Put a run in front of the person; nothing moves yet."""
        watch = Watch(session.trajectory, session.judge.new_steps, read(session.run.trajectory))
        course = Course(lambda: limits_of(session))
        stepper = Stepper(session.agent, session.person, watch, self.breakpoints, course)
        return Desk(session, stepper, watch, self.write, self.edit_text)

    def talk(self, desk: Desk, halt: Halt) -> None:
        """Read and do commands until the person leaves or the run is finished."""
        lines = self.make_lines(lambda text: words_for(desk, text))
        try:
            self._show(desk, halt)
            self._talk(desk, lines)
            self.follow = desk.follow
            self._tell_what_was_not_said(desk)
            if desk.stepper.finish() is None and not self.follow and not desk.session.signals.must_leave:
                self.write(f"The run is kept in {desk.session.run.path}.")
        finally:
            desk.watch.close()

    def _talk(self, desk: Desk, lines: Lines) -> None:
        last: Command | None = None
        while not desk.leaving and not desk.session.signals.must_leave:
            desk.session.signals.calm()
            try:
                line = self._read(desk, lines)
            except KeyboardInterrupt:
                if not lines.interactive:
                    return
                continue
            if line is None:
                return
            if line or (last is not None and last.repeats):
                last = self._do(desk, line, last)

    def _read(self, desk: Desk, lines: Lines) -> str | None:
        desk.session.signals.instead = lines.interrupt
        try:
            with desk.session.clock.paused():
                return lines.read(PROMPT)
        finally:
            desk.session.signals.instead = None

    def _do(self, desk: Desk, line: str, last: Command | None) -> Command | None:
        """Do one line; returns the command, for an empty line to repeat."""
        word, rest = split(plain(line).strip())
        try:
            command = find(word) if word else last
            if command is None:
                return None
            self._show(desk, command.run(desk, rest))
            return command
        except SandboxLost as error:
            desk.stepper.end = Stop(StopReason.SANDBOX_LOST, str(error))
            desk.leaving = True
        except (CudaAgentError, SandboxError, OSError) as error:
            self.write(paragraph(f"*** {' '.join(plain(str(error)).split())}"))
        except KeyboardInterrupt:
            self.write("* Interrupted.")
        return None

    def _tell_what_was_not_said(self, desk: Desk) -> None:
        if desk.stepper.waiting and desk.stepper.pending is not None:
            self.write("The model was not told, because its calls are not answered yet:")
            for text in desk.stepper.waiting:
                self.write(f"  {one_line(text)}")

    def _show(self, desk: Desk, halt: Halt | None) -> None:
        if halt is not None and not desk.leaving:
            desk.show_position(halt)


def split(line: str) -> tuple[str, str]:
    """Split a line into the command's word and the rest; `!` and `?` need no space behind them."""
    if line[:1] in ("!", "?"):
        return line[0], line[1:].strip()
    word, _, rest = line.partition(" ")
    return word, rest.strip()


def words_for(desk: Desk, text: str) -> Sequence[str]:
    """Return what the last word of a line may become."""
    word, space, begun = text.partition(" ")
    if not space:
        return [command.name for command in COMMANDS if command.name.startswith(word)]
    try:
        known = find(word).words(desk)
    except CudaAgentError:
        return ()
    return [one for one in known if one.startswith(begun)] if " " not in begun else ()
