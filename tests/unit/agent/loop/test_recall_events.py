"""Events that a loop alone does not write: a person's, and those of another process."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cuda_agent.judging import Submission
from cuda_agent.loop.memory import Memory
from cuda_agent.loop.recall import recall
from cuda_agent.trajectory import CallChanged, Event, MessageAdded, Notice, Observation, Resumed, TurnEnded, Unknown

START = datetime(2026, 1, 1, tzinfo=UTC)


def told(*events: Event, seconds: list[float] | None = None) -> Memory:
    """What these events tell; a second apart unless given otherwise."""
    after = seconds or [float(number) for number in range(len(events))]
    times = [START + timedelta(seconds=one) for one in after]
    return recall(events, times, lambda name: Submission({}), finals=3).memory()


def ended(turn: int, elapsed_s: float = 0.0) -> TurnEnded:
    return TurnEnded(turn, "s", "", {"idle": 0, "polish_left": None, "finals_left": 3, "elapsed_s": elapsed_s})


def asked(*ids: str) -> MessageAdded:
    made = [{"id": one, "name": "Bash", "arguments": {"command": f"old {n}"}} for n, one in enumerate(ids)]
    return MessageAdded(1, "assistant", "", tool_calls=made)


def seen(identity: str, by: str = "") -> Observation:
    return Observation(1, identity, "Bash", "out", False, 0.0, by)


def changed(identity: str) -> CallChanged:
    return CallChanged(1, identity, "Glob", {"pattern": "new"}, {"name": "Bash"})


@pytest.mark.parametrize(
    ("events", "names"),
    [
        ([asked("a", "b"), changed("b")], ["Bash", "Glob"]),
        ([asked("a", "a"), seen("a"), changed("a")], ["Bash", "Glob"]),
        ([asked("a", "a"), changed("a")], ["Glob", "Bash"]),
        ([asked("a"), seen("a"), changed("a")], ["Bash"]),
    ],
)
def test_the_conversation_shows_the_call_that_ran(events: list[Event], names: list[str]) -> None:
    memory = told(ended(0), *events)
    assert [call.name for call in memory.messages[0].tool_calls] == names
    assert memory.in_flight is not None
    assert [call.name for call in memory.in_flight.reply.tool_calls] == names


def test_calls_of_a_person_are_no_part_of_the_conversation_and_what_a_person_says_is() -> None:
    said = MessageAdded(1, "user", "try that", by="person")
    memory = told(ended(0), asked("a"), seen("p", by="person"), seen("a"), said, MessageAdded(1, "user", "nudge"))
    assert [(one.role, one.content) for one in memory.messages[1:]] == [("tool", "out"), ("user", "try that")]


def test_events_of_a_later_version_are_passed_over() -> None:
    assert told(ended(0), asked("a"), Unknown("new", {"turn": 1}), seen("a")).in_flight is not None


def with_gap(*after: Any) -> tuple[list[Event], list[float]]:
    """A run of 10 s that died 5 s into its next turn, and went on an hour later."""
    events: list[Event] = [Notice(0, ""), ended(1, 10.0), Notice(1, ""), Resumed(1, "m", {})]
    return [*events, *(one for one, _ in after)], [0.0, 10.0, 15.0, 3600.0, *(when for _, when in after)]


@pytest.mark.parametrize(
    ("after", "seconds"),
    [
        ([], 15.0),
        ([(Notice(1, ""), 3602.0)], 17.0),
        ([(ended(2, 21.0), 3606.0), (Notice(2, ""), 3607.0)], 22.0),
    ],
)
def test_time_in_which_nobody_worked_on_it_does_not_count(after: list[Any], seconds: float) -> None:
    events, times = with_gap(*after)
    assert told(*events, seconds=times).elapsed_s == pytest.approx(seconds)
