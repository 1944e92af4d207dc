"""Commands that move the run on, and the breakpoints that stop it."""

from cuda_agent.debugger.desk import Desk, whole_number
from cuda_agent.debugger.happenings import Happening
from cuda_agent.debugger.screen import plain
from cuda_agent.debugger.stepper import Goal, Halt
from cuda_agent.errors import UsageError


def step(desk: Desk, rest: str) -> Halt | None:
    """Run the pending call, or ask the model, and stop before the next call."""
    return _advance(desk, Goal.STEP)


def next_verdict(desk: Desk, rest: str) -> Halt | None:
    """Go on to the next verdict."""
    return _advance(desk, Goal.NEXT)


def go_on(desk: Desk, rest: str) -> Halt | None:
    """Go on to a breakpoint or to the end."""
    return _advance(desk, Goal.CONTINUE)


def until(desk: Desk, rest: str) -> Halt | None:
    """Go on to a turn."""
    turn = whole_number(rest, "until needs a turn, which", least=1)
    if turn <= desk.session.agent.turn:
        raise UsageError(f"The run is in turn {desk.session.agent.turn} already; `goto {turn}` goes back.")
    return _advance(desk, Goal.CONTINUE, turn)


def _advance(desk: Desk, goal: Goal, turn: int | None = None) -> Halt | None:
    over = desk.stepper.end
    halt = desk.stepper.advance(goal, turn=turn)
    if over is not None and desk.stepper.end is not None:
        desk.leaving = True
        return None
    return halt


def quit_run(desk: Desk, rest: str) -> Halt | None:
    """Leave the run as it stands."""
    desk.leaving = True
    return None


def set_break(desk: Desk, rest: str) -> Halt | None:
    """List breakpoints, or set one."""
    points = desk.stepper.breakpoints
    if not rest:
        show_breakpoints(desk)
        return None
    tools = [spec.name for spec in desk.session.person.tools]
    words = rest.split() if rest.split()[0] in tools or rest in set(Happening) else [rest]
    point = points.add(words, tools)
    desk.write(f"Breakpoint {point.number} at {plain(point.text)}")
    return None


def show_breakpoints(desk: Desk) -> None:
    """Print a line for each breakpoint."""
    for point in desk.stepper.breakpoints.all:
        hits = f", hit {point.hits} time{'s' if point.hits > 1 else ''}" if point.hits else ""
        desk.write(f"{point.number:>3}  {plain(point.text)}{hits}")
    if not desk.stepper.breakpoints.all:
        desk.write("There are no breakpoints; `help break` says how to set one.")


def delete(desk: Desk, rest: str) -> Halt | None:
    """Remove breakpoints."""
    points = desk.stepper.breakpoints
    if not rest:
        if not (count := points.clear()):
            show_breakpoints(desk)
            return None
        desk.write(f"Deleted {count} breakpoint{'' if count == 1 else 's'}.")
        return None
    for number in [whole_number(word, "A breakpoint's number") for word in rest.split()]:
        desk.write(f"Deleted breakpoint {points.delete(number).number}.")
    return None
