"""Commands that go to another turn, or start another run from it."""

from cuda_agent.debugger.desk import Desk, whole_number
from cuda_agent.debugger.screen import plain
from cuda_agent.debugger.stepper import Halt
from cuda_agent.errors import UsageError
from cuda_agent.runs import travel


def back(desk: Desk, rest: str) -> Halt | None:
    """Go back some turns."""
    count = whole_number(rest or "1", "The number of turns to go back", least=1)
    here = desk.stepper.turn
    if here == 0:
        raise UsageError("The run is at its beginning: there is no turn to go back from.")
    if count > here:
        raise UsageError(f"The run is in turn {here}; `back` goes back {here} turns at most.")
    return go(desk, here - count)


def goto(desk: Desk, rest: str) -> Halt | None:
    """Go to the end of a turn."""
    return go(desk, whole_number(rest, "goto needs a turn, which"))


def go(desk: Desk, turn: int) -> Halt:
    """Make conversation and files what they were at the end of a turn.

    Raises:
        ConfigError: there is no such turn.
    """
    for sentence in travel.go_to(desk.session, turn):
        desk.write(f"* Not put back: {plain(sentence)}")
    desk.stepper.moved()
    _rewind_script(desk)
    return Halt()


def _rewind_script(desk: Desk) -> None:
    """A script says its lines one by one: it goes back with the run."""
    chair, messages = desk.session.chair, desk.session.agent.messages
    if chair.settings.model.startswith("scripted:"):
        chair.change(replies=sum(message.role == "assistant" for message in messages))


def fork(desk: Desk, rest: str) -> Halt | None:
    """Start another run from the end of a turn and leave this one for it."""
    words = rest.split()
    model = None
    for number, word in enumerate(words):
        if word.startswith("--model="):
            model, words = word.removeprefix("--model="), words[:number] + words[number + 1 :]
            break
        if word == "--model" and len(words) > number + 1:
            model, words = words[number + 1], words[:number] + words[number + 2 :]
            break
    if len(words) != 1:
        raise UsageError("fork needs a turn, as in `fork 3` or `fork 3 --model builtin`.")
    turn = whole_number(words[0], "fork needs a turn, which")
    session = desk.session
    travel.check_turn(session.run.path, turn)
    target = travel.fork(session.run.path, turn, changes={"model": model}, trajectory=session.trajectory)
    desk.write(f"Forked from turn {turn} into {plain(str(target))}; this run is kept as it is.")
    desk.follow, desk.leaving = target, True
    return None
