"""Turns, calls and the reasons to stop."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.agent.fakes import DONE, Write, call, calls, report
from tests.unit.agent.loop.stage import PROFILED, Build, write

from cuda_agent.errors import ModelError
from cuda_agent.llm.model import Reply, ToolCall
from cuda_agent.llm.scripted import Entry, Request
from cuda_agent.loop.stop import Limits, StopReason
from cuda_agent_tools.sandbox import SandboxLost


def test_a_turn_answers_each_call_once_and_in_order(build: Build) -> None:
    stage = build(
        [
            calls(
                write("A", "1"),
                call("Nothing", "2"),
                ToolCall("3", "Write", None, "{'a"),
                call("Write", "4"),
                write("impossible", "5"),
                write("B", "1"),
            )
        ]
    )
    turn = stage.agent.step()
    assert [one.id for one in turn.observations] == ["1", "2", "3", "4", "5", "1"]
    assert [one.is_error for one in turn.observations] == [False, True, True, True, True, False]
    texts = [one.text for one in turn.observations]
    assert texts[0] == "wrote A"
    assert "no tool 'Nothing'" in texts[1]
    assert "Write" in texts[1]
    assert "{'a" in texts[2]
    assert "'text'" in texts[3]
    assert texts[4] == "that cannot be written"
    assert [m.tool_call_id for m in stage.agent.messages if m.role == "tool"] == ["1", "2", "3", "4", "5", "1"]
    assert len(stage.heard.of("tool_call")) == len(stage.heard.of("observation")) == 6


def test_three_replies_without_a_call_and_a_change_are_stuck(build: Build) -> None:
    stage = build([DONE, DONE, DONE, DONE])
    assert stage.agent.run() is StopReason.STUCK
    assert stage.agent.turn == 3


def test_a_call_between_them_starts_the_count_again(build: Build) -> None:
    stage = build([DONE, DONE, calls(call("Nothing")), DONE, DONE, DONE])
    assert stage.agent.run() is StopReason.STUCK
    assert stage.agent.turn == 6


def test_the_same_call_with_the_same_result_is_told_then_stuck(build: Build) -> None:
    stage = build([calls(write("A"))] + [calls(call("Nothing", str(n))) for n in range(20)], max_turns=30)
    assert stage.agent.run() is StopReason.STUCK
    assert stage.agent.turn == 1 + Limits().repeats_stuck
    assert sum("same result 4 times" in text for text in stage.told()) == 1


def test_repeats_are_forgotten_when_the_submission_changes(build: Build) -> None:
    script = [calls(call("Nothing", str(n)), write(str(n))) for n in range(12)]
    stage = build(script, [report("incorrect")], max_turns=12)
    assert stage.agent.run() is StopReason.MAX_TURNS


@pytest.mark.parametrize(
    ("entry", "reason", "detail"),
    [
        (Reply(refusal="not that"), StopReason.REFUSED, "not that"),
        (Reply(gave_up="no recipe"), StopReason.GAVE_UP, "no recipe"),
        (ModelError("rate limit"), StopReason.MODEL_ERROR, "rate limit"),
    ],
)
def test_the_models_own_endings(build: Build, entry: Entry, reason: StopReason, detail: str) -> None:
    stage = build([entry])
    assert stage.agent.run() is reason
    assert stage.agent.stop is not None
    assert detail in stage.agent.stop.detail
    assert stage.judge.asked == []


def test_a_reply_cut_off_at_its_length_is_told_so(build: Build) -> None:
    stage = build([Reply(text="I will", finish_reason="length"), Reply(gave_up="x")])
    stage.agent.run()
    assert "cut off" in stage.told()[0]


class Ends:
    """A tool during which something ends."""

    name = "End"
    description = ""

    def __init__(self, action: Callable[[], None]) -> None:
        self.parameters: dict[str, Any] = {"type": "object"}
        self._action = action

    def run(self, arguments: object, *, on_output: object = None) -> Any:
        self._action()
        return Write({}).run({"text": "x"})


def test_a_lost_sandbox_is_never_an_observation(build: Build) -> None:
    def lose() -> None:
        raise SandboxLost("the workspace is gone")

    stage = build([calls(call("End"))], tools=[Ends(lose)])
    assert stage.agent.run() is StopReason.SANDBOX_LOST
    assert stage.heard.of("observation") == []


def test_the_time_limit_is_checked_between_calls_and_each_is_answered(build: Build) -> None:
    left: list[float] = []
    stage = build(
        [calls(call("End", "1"), write("A", "2"), write("B", "3"))], tools=[Ends(lambda: left.__setitem__(0, 0.0))]
    )
    left = stage.left
    assert stage.agent.run() is StopReason.TIME_LIMIT
    answers = stage.heard.of("observation")
    assert [one.id for one in answers] == ["1", "2", "3"]
    assert all("time limit" in one.text for one in answers[1:])


def test_a_model_that_was_waited_for_until_the_end_is_the_time_limit(build: Build) -> None:
    left: list[float] = []

    def late(request: Request) -> Exception:
        left[0] = 0.0
        return ModelError("no complete answer in time")

    stage = build([late])
    left = stage.left
    assert stage.agent.run() is StopReason.TIME_LIMIT


def test_an_interrupt_keeps_the_best_and_gives_it_a_final_verdict(build: Build) -> None:
    def interrupted(request: Request) -> Reply:
        raise KeyboardInterrupt

    stage = build([calls(*PROFILED), interrupted], [report("tie", 1.03)], [report("tie", 1.02, final=True)])
    assert stage.agent.run() is StopReason.INTERRUPTED
    assert stage.judge.asked == ["verdict", "final A"]
    assert any("again" in one.text for one in stage.heard.of("notice"))


def test_a_won_run_that_is_interrupted_while_polishing_says_so_and_keeps_the_win(build: Build) -> None:
    def interrupted(request: Request) -> Reply:
        raise KeyboardInterrupt

    stage = build([calls(*PROFILED), interrupted], [report("win", 2.0)], [report("win", 2.0, final=True)], polish=3)
    assert stage.agent.run() is StopReason.INTERRUPTED
    assert stage.referee.won
    assert (stage.run.best / "report.json").exists()
