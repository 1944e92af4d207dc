"""A run taken one move at a time: the same run as by itself, with places to stand still."""

import dataclasses
import signal

import pytest
from tests.unit.agent.debugger.table import Open, raises
from tests.unit.agent.fakes import DONE, call, calls, report

from cuda_agent.debugger.stepper import INTERRUPTED, Goal
from cuda_agent.errors import ModelError
from cuda_agent.llm.model import Reply
from cuda_agent.llm.scripted import Entry, Request
from cuda_agent.loop.stop import StopReason
from cuda_agent.trajectory import Event, Observation
from cuda_agent_judge.report import Report
from cuda_agent_tools.sandbox import SandboxLost


def write(text: str, identity: str = "w") -> object:
    return call("Write", identity, text=text)


def script() -> list[Entry]:
    return [
        calls(call("Write", "a", text="A"), call("Profile", "b"), text="first"),
        DONE,
        calls(call("Write", "c", text="B"), call("Nothing", "d")),
        DONE,
    ]


VERDICTS = (report("tie", 1.01), report("win", 2.0))
FINALS = (report("win", 1.9, final=True),)


def untimed(event: Event) -> Event:
    return dataclasses.replace(event, duration_s=0.0) if isinstance(event, Observation) else event


def test_a_run_in_steps_writes_down_what_a_run_by_itself_does(sit: Open) -> None:
    alone, stepped = sit(script(), VERDICTS, FINALS), sit(script(), VERDICTS, FINALS)
    assert alone.agent.run() is StopReason.TARGET_REACHED
    moves = 0
    while stepped.stepper.end is None:
        stepped.stepper.advance(Goal.STEP)
        moves += 1
    assert stepped.stepper.finish() is StopReason.TARGET_REACHED
    assert moves > 4
    assert [untimed(event) for event in stepped.heard.events] == [untimed(event) for event in alone.heard.events]
    assert stepped.agent.messages == alone.agent.messages


def test_a_step_stops_before_every_call_and_after_a_reply_without_one(sit: Open) -> None:
    table = sit(script(), VERDICTS, FINALS)
    seen = []
    while table.stepper.end is None:
        table.stepper.advance(Goal.STEP)
        seen.append((table.agent.turn, table.stepper.pending.id if table.stepper.pending else "-"))
    assert seen == [(1, "a"), (1, "b"), (2, "-"), (3, "c"), (3, "d"), (4, "-")]


def test_nothing_runs_before_it_is_stepped_over(sit: Open) -> None:
    table = sit([calls(call("Write", "a", text="A"))])
    table.stepper.advance(Goal.STEP)
    assert (table.files, table.heard.of("tool_call")) == ({}, [])
    assert [message.role for message in table.heard.of("message")] == ["assistant"]


def test_next_goes_to_the_next_verdict(sit: Open) -> None:
    table = sit(script(), VERDICTS, FINALS)
    assert "verdict" in table.stepper.advance(Goal.NEXT).why
    assert (table.agent.turn, len(table.heard.of("verdict"))) == (1, 1)


def test_until_goes_to_the_first_call_of_a_turn(sit: Open) -> None:
    table = sit(script(), VERDICTS, FINALS)
    table.stepper.advance(Goal.CONTINUE, turn=3)
    assert (table.agent.turn, table.stepper.place) == (3, (1, 2))


def test_a_breakpoint_on_a_happening_stops_where_the_turn_is_over(sit: Open) -> None:
    failed = Report(command="compile", status="compile_error", reason="kernel.cpp:3: no such name")
    table = sit([calls(call("Nothing", str(n))) for n in range(4)], steps=[[], [], [], [], [failed], [failed]])
    table.stepper.breakpoints.add(["failed-compile"], [])
    halt = table.stepper.advance(Goal.CONTINUE)
    assert "failed-compile" in halt.why
    assert (table.agent.turn, table.stepper.pending) == (2, None)
    assert table.stepper.breakpoints.all == ()  # it was on the first one


def test_a_call_that_is_skipped_is_not_run_and_the_model_reads_why(sit: Open) -> None:
    table = sit([calls(call("Write", "a", text="A"), call("Nothing", "b"))])
    table.stepper.advance(Goal.STEP)
    table.stepper.skip("it is right already")
    assert table.files == {}
    assert "it is right already" in table.answers()[0].content
    assert table.stepper.pending is not None
    assert table.stepper.pending.id == "b"


def test_skipping_the_last_call_ends_the_turn(sit: Open) -> None:
    table = sit([calls(call("Write", "a", text="A"))])
    table.stepper.advance(Goal.STEP)
    table.stepper.skip("no")
    assert table.stepper.pending is None
    assert len(table.answers()) == 1


def test_a_changed_call_runs_as_changed_and_the_conversation_shows_what_ran(sit: Open) -> None:
    table = sit([calls(call("Write", "same", text="A"), call("Write", "same", text="B")), DONE], (report("tie", 1.0),))
    table.stepper.advance(Goal.STEP)
    table.stepper.advance(Goal.STEP)
    table.stepper.change("Write", {"text": "C"})
    table.stepper.advance(Goal.STEP)
    assert table.files == {"model_new.py": b"C"}
    assistant = next(message for message in table.agent.messages if message.tool_calls)
    assert [one.arguments for one in assistant.tool_calls] == [{"text": "A"}, {"text": "C"}]
    changed = table.heard.of("call_changed")[0]
    assert (changed.was["arguments"], changed.arguments, changed.by) == ({"text": "B"}, {"text": "C"}, "person")
    assert "A person changed your call 'same'" in table.said()[0]


def test_what_is_said_while_calls_are_pending_comes_behind_their_answers(sit: Open) -> None:
    table = sit([calls(call("Nothing", "a"), call("Nothing", "b")), DONE])
    table.stepper.advance(Goal.STEP)
    assert table.stepper.say("use float4") is False
    table.stepper.advance(Goal.STEP)
    table.stepper.advance(Goal.STEP)
    assert [m.role for m in table.agent.messages][2:6] == ["assistant", "tool", "tool", "user"]
    assert table.agent.messages[5].content == "use float4"
    said = [event for event in table.heard.of("message") if event.by == "person"]
    assert [event.content for event in said] == ["use float4"]


def test_what_is_said_between_two_turns_is_in_the_next_request(sit: Open) -> None:
    table = sit([calls(call("Nothing", "a")), DONE])
    assert table.stepper.say("hello") is True
    table.stepper.advance(Goal.STEP)
    assert table.model.requests[0].last.content == "hello"


def test_an_interrupted_call_is_answered_and_the_turn_goes_on(sit: Open) -> None:
    table = sit([calls(call("Hang", "a"), call("Nothing", "b")), DONE], tools=[raises(KeyboardInterrupt())])
    table.stepper.advance(Goal.STEP)
    assert table.stepper.advance(Goal.CONTINUE).why == INTERRUPTED
    assert "Interrupted by a person" in table.answers()[0].content
    assert table.stepper.pending is not None
    assert table.stepper.pending.id == "b"
    assert table.heard.of("observation")[0].is_error


def test_an_interrupted_request_was_no_turn(sit: Open) -> None:
    def interrupted(request: Request) -> Reply:
        raise KeyboardInterrupt

    table = sit([interrupted, calls(call("Nothing", "a"))])
    assert table.stepper.advance(Goal.CONTINUE).why == INTERRUPTED
    table.stepper.advance(Goal.STEP)
    assert (table.agent.turn, table.stepper.end) == (1, None)
    assert table.stepper.pending is not None


def test_an_interrupted_verdict_leaves_a_conversation_that_can_go_on(sit: Open) -> None:
    def profile(request: Request) -> Reply:
        return calls(call("Write", "a", text="A"), call("Profile", "b"))

    class Hanging(list[object]):
        def pop(self, index: object = -1) -> object:
            raise KeyboardInterrupt

    table = sit([profile, DONE])
    table.judge.verdicts = Hanging()  # type: ignore[assignment]
    assert table.stepper.advance(Goal.CONTINUE).why == INTERRUPTED
    assert table.stepper.pending is None
    assert "was not taken" in table.said()[0]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (ModelError("rate limit"), StopReason.MODEL_ERROR),
        (Reply(refusal="no"), StopReason.REFUSED),
        (Reply(gave_up="no idea"), StopReason.GAVE_UP),
    ],
)
def test_a_run_that_is_over_goes_on_when_a_person_says_something(sit: Open, entry: Entry, reason: StopReason) -> None:
    table = sit([entry, calls(call("Nothing", "a"))])
    table.stepper.advance(Goal.CONTINUE)
    assert table.stepper.end is not None
    assert table.stepper.end.reason is reason
    table.stepper.say("try again")
    table.stepper.advance(Goal.STEP)
    assert table.stepper.pending is not None
    assert table.heard.of("stopped") == []


def test_a_raised_limit_lets_a_run_go_on(sit: Open) -> None:
    table = sit([calls(call("Nothing", str(n))) for n in range(5)], max_turns=2)
    table.stepper.advance(Goal.CONTINUE)
    assert table.stepper.end is not None
    assert table.agent.turn == 2
    table.agent.limits = dataclasses.replace(table.agent.limits, max_turns=3)
    table.stepper.advance(Goal.STEP)
    assert table.agent.turn == 3
    assert table.stepper.pending is not None


def test_a_lost_sandbox_ends_the_run_for_good(sit: Open) -> None:
    table = sit([calls(call("Hang", "a"))], tools=[raises(SandboxLost("gone"))])
    table.stepper.advance(Goal.CONTINUE)
    table.stepper.say("still there?")
    assert table.stepper.end is not None
    assert table.stepper.finish() is StopReason.SANDBOX_LOST


@pytest.mark.parametrize(("number", "left"), [(signal.SIGTERM, True), (signal.SIGINT, False)])
def test_a_person_may_go_on_after_ctrl_c_but_not_after_sigterm(sit: Open, number: signal.Signals, left: bool) -> None:
    signals = sit([]).desk.session.signals
    with signals:
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(number)
        assert signals.must_leave
        signals.calm()
    assert signals.must_leave is left
