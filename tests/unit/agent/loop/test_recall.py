"""What a trajectory tells is what the agent and its referee knew, at every turn and wherever it was cut off."""

import dataclasses
from collections.abc import Sequence

import pytest
from tests.unit.agent.fakes import DONE, call, calls, report
from tests.unit.agent.loop.stage import PROFILED, Build, Stage, write

from cuda_agent.errors import ConfigError
from cuda_agent.history import read_history
from cuda_agent.llm.model import Reply, ToolCall, Usage
from cuda_agent.llm.scripted import Entry
from cuda_agent.loop.memory import Memory
from cuda_agent.loop.recall import Recall, recall
from cuda_agent.loop.stop import StopReason
from cuda_agent.trajectory import Event, Observation, Resumed, Rewound, StageStarted
from cuda_agent.workspace import submission_of
from cuda_agent_judge.report import Report

PRICED = Usage(10, 20, 5, 0.25)


def recalled(stage: Stage, events: Sequence[Event] | None = None) -> Recall:
    """What the trajectory of a stage tells, or these events of it."""
    history = read_history(stage.run.trajectory)
    some = history.events if events is None else tuple(events)
    times = history.times[: len(some)]
    return recall(some, times, lambda name: submission_of(stage.store, name), finals=stage.agent.limits.finals)


def plain(memory: Memory) -> Memory:
    """Without what no trajectory tells: how long it took."""
    return dataclasses.replace(memory, elapsed_s=0.0)


def noted(stage: Stage) -> list[Memory]:
    """Take all turns of a stage; return what was known at the end of each, the briefing first."""
    stage.agent.say("be good", role="system")
    stage.agent.briefed()
    found = [stage.agent.memory()]
    stop = None
    while stop is None:
        stop = stage.agent.exhausted() or stage.agent.settle(stage.agent.step())
        found.append(stage.agent.memory())
    stage.agent.finish(stop)
    return found


def malformed() -> Reply:
    return Reply(tool_calls=(ToolCall("m", "Write", None, "{'a"),), finish_reason="tool_calls", usage=PRICED)


SCRIPTS: dict[str, tuple[list[Entry], list[Report], list[Report]]] = {
    "to the target": (
        [calls(*PROFILED), malformed(), calls(write("B"), call("Profile")), DONE],
        [report("tie", 1.02), report("win", 2.0)],
        [report("win", 1.9, final=True)],
    ),
    "refuted, then confirmed": (
        [calls(*PROFILED), calls(write("B"), call("Profile", "p"))],
        [report("win", 2.0), report("win", 2.5)],
        [report("incorrect", final=True), report("win", 2.4, final=True)],
    ),
    "idle and repeating": (
        [calls(write("A", "1"), write("A", "1")), *[calls(call("Nothing", "1"), text="again")] * 5, DONE, DONE, DONE],
        [report("slower", 0.5)],
        [report("slower", 0.4, final=True)],
    ),
    "nothing passes": ([calls(write("A")), DONE, Reply(gave_up="no")], [report("compile_error", reason="x")], []),
    "refused": ([calls(write("A")), Reply(text="t", reasoning="r", provider={"k": [1]}, refusal="not that")], [], []),
    "polish": (
        [calls(*PROFILED), calls(write("B"), call("Profile")), calls(write("C")), calls(write("D"))],
        [report("win", 2.0), report("win", 3.0)],
        [report("win", 2.0, final=True), report("win", 2.9, final=True)],
    ),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_turn_is_recalled_as_it_was(build: Build, name: str) -> None:
    script, verdicts, finals = SCRIPTS[name]
    stage = build(script, verdicts, finals, polish=2 if name == "polish" else 0)
    live = noted(stage)
    found = recalled(stage)
    usage = live[-1].usage  # what was paid for is never forgotten
    assert found.turns == tuple(range(len(stage.heard.of("turn_ended"))))
    for turn in found.turns:
        assert plain(found.memory_at(turn)) == dataclasses.replace(plain(live[turn]), usage=usage)
    assert plain(found.memory()) == plain(stage.agent.memory())


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_run_that_is_cut_off_after_any_event_is_recalled_with_every_answer_and_nothing_else(
    build: Build, name: str
) -> None:
    script, verdicts, finals = SCRIPTS[name]
    stage = build(script, verdicts, finals, polish=2 if name == "polish" else 0)
    noted(stage)
    events = read_history(stage.run.trajectory).events
    settled = max(place for place, event in enumerate(events) if event.type == "turn_ended")
    for cut in range(1, settled):
        memory = recalled(stage, events[:cut]).memory()
        again = recalled(stage, [*events[:cut], Resumed(memory.turn, "m", {})]).memory()
        assert plain(again) == plain(memory)
        done = [event for event in events[:cut] if isinstance(event, Observation)]
        assert [message.content for message in memory.messages if message.role == "tool"] == [one.text for one in done]
        pending = memory.in_flight.reply.tool_calls if memory.in_flight else ()
        answered = memory.in_flight.observations if memory.in_flight else ()
        assert [one.id for one in answered] == [one.id for one in pending[: len(answered)]]


def test_who_goes_on_keeps_the_time_back_that_verdicts_took_before(build: Build) -> None:
    script, verdicts, finals = SCRIPTS["idle and repeating"]
    stage = build(script, verdicts, finals)
    stage.referee.slowest_s = 12.5
    noted(stage)
    found = recalled(stage)
    before_the_last = max(turn for turn in found.turns if not found.memory_at(turn).verdicts.finals)
    stage.referee.slowest_s = 0.0  # as in another process
    stage.referee.restore(found.memory_at(before_the_last).verdicts)
    assert stage.referee.reserve_s == 25.0


def test_dangling_calls_are_answered_on_disk_and_the_turn_is_settled(build: Build) -> None:
    stage = build([calls(write("A", "1"), write("B", "1"), call("Profile", "2")), DONE], [report("tie", 1.01)])
    stage.agent.briefed()
    stage.agent.ask()
    reply_calls = stage.agent.messages[-1].tool_calls
    stage.agent.answer(reply_calls[0])
    memory = recalled(stage).memory()
    assert memory.in_flight is not None
    stage.agent.restore(memory)
    assert [one.text[:27] for one in stage.heard.of("observation")][1:] == ["Interrupted, state unknown:"] * 2
    assert [m.tool_call_id for m in stage.agent.messages if m.role == "tool"] == ["1", "1", "2"]
    assert stage.agent.catch_up() is None
    assert [one.turn for one in stage.heard.of("turn_ended")] == [0, 1]
    assert plain(recalled(stage).memory()) == plain(stage.agent.memory())


def test_what_the_runtime_said_while_it_settled_is_said_once(build: Build) -> None:
    stage = build([DONE, Reply(gave_up="x")])
    stage.agent.briefed()
    turn = stage.agent.step()
    stage.agent.settle(turn)
    events = read_history(stage.run.trajectory).events
    memory = recalled(stage, events[:-1]).memory()  # the end of the turn is missing, the message to the model is there
    assert memory.in_flight is not None
    stage.agent.restore(memory)
    assert stage.told() == []
    stage.agent.catch_up()
    assert len(stage.told()) == 1
    assert recalled(stage, [*events[:-1], Resumed(1, "m", {})]).memory().messages == memory.messages


def test_a_verdict_that_had_begun_is_taken_after_the_interruption(build: Build) -> None:
    stage = build([calls(*PROFILED)], [report("win", 2.0)], [report("win", 2.0, final=True)])
    stage.agent.briefed()
    stage.agent.step()
    stage.judge.profiled.clear()  # the judge's own record went with the sandbox
    events = [*read_history(stage.run.trajectory).events, StageStarted(1, "verdict")]
    history = read_history(stage.run.trajectory)
    memory = recall(
        events, [*history.times, history.times[-1]], lambda name: submission_of(stage.store, name), finals=3
    ).memory()
    stage.agent.restore(memory)
    stop = stage.agent.catch_up()
    assert stop is not None
    assert stop.reason is StopReason.TARGET_REACHED
    assert stage.judge.asked == ["verdict", "final A"]


def test_a_final_verdict_that_did_not_end_is_taken_again_and_the_first_is_not(build: Build) -> None:
    stage = build([calls(*PROFILED)], [report("win", 2.0)], [report("win", 2.0, final=True)] * 2)
    noted(stage)
    events = read_history(stage.run.trajectory).events
    cut = next(place for place, event in enumerate(events) if event.type == "verdict") + 1
    stage.agent.restore(recalled(stage, events[:cut]).memory())
    stage.agent.catch_up()
    assert stage.judge.asked == ["verdict", "final A", "final A"]
    assert stage.referee.finals_left == 2


def test_going_back_is_honoured_and_what_was_paid_stays_paid(build: Build) -> None:
    script = [calls(*PROFILED), calls(write("B")), calls(write("C"))]
    verdicts = [report("tie", 1.02), report("slower", 0.9)]
    stage = build(script, verdicts, [report("tie", 1.02, final=True)], max_turns=3)
    live = noted(stage)
    found = recalled(stage)
    events = [*read_history(stage.run.trajectory).events, Rewound(1, 3)]
    history = read_history(stage.run.trajectory)
    back = recall(events, [*history.times, history.times[-1]], lambda n: submission_of(stage.store, n), finals=3)
    assert back.turns == (0, 1)
    assert plain(back.memory()) == dataclasses.replace(plain(live[1]), usage=live[-1].usage)
    assert plain(found.memory_at(1)) == plain(back.memory())
    with pytest.raises(ConfigError, match="turns 0 to 1"):
        back.memory_at(2)


def test_best_follows_when_the_referee_goes_back(build: Build) -> None:
    stage = build(
        [calls(*PROFILED), calls(write("B"), call("Profile", "p"))],
        [report("tie", 1.02), report("win", 2.0)],
        [report("win", 2.0, final=True)],
    )
    noted(stage)
    assert (stage.run.best / "model_new.py").read_text() == "B"
    found = recalled(stage)
    stage.agent.restore(found.memory_at(1))
    assert (stage.run.best / "model_new.py").read_text() == "A"
    stage.agent.restore(found.memory_at(0))
    assert not stage.run.best.exists()
    assert not stage.referee.won
