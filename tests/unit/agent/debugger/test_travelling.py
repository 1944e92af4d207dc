"""Back to earlier turns and into other runs, from the prompt."""

import json
from pathlib import Path

import pytest
from tests.unit.agent.debugger.table import Open, Table
from tests.unit.agent.fakes import DONE, call, calls, report

from cuda_agent.debugger.stepper import Goal
from cuda_agent.debugger.watch import counted, former_end
from cuda_agent.history import read
from cuda_agent.loop.stop import StopReason
from cuda_agent.trajectory import Event, Judged, Notice, Resumed, Rewound, SandboxStarted, Stopped


@pytest.fixture
def table(sit: Open) -> Table:
    letters = [calls(call("Write", f"w{n}", text=letter)) for n, letter in enumerate("ABCDE")]
    return sit([*letters, DONE], [report("tie", 1.0)] * 3, real_files=True)


def kernel(table: Table) -> bytes:
    return Path(table.desk.session.sandbox.workspace, "model_new.py").read_bytes()


def test_back_puts_files_and_conversation_where_they_were(table: Table) -> None:
    text = table.talk("until 4", "back 2", "l", "diff 1 2", "p ledger")
    assert "> turn 2 is over; the model is asked next" in text
    assert kernel(table) == b"B"
    assert (table.agent.turn, len(table.agent.messages)) == (2, 2 + 4)
    assert "turn 3" not in text.split("turn 2 is over")[1]
    assert "-A\n+B" in text
    assert [event.turn for event in table.heard.of("rewound")] == [2]


def test_a_run_goes_on_from_where_it_went_back_to(table: Table) -> None:
    table.talk("until 4", "goto 1", "until 3", "back")
    assert table.agent.turn == 2
    assert kernel(table) == b"B"
    assert [m.tool_calls[0].id for m in table.agent.messages if m.tool_calls] == ["w0", "w1"]


def test_going_back_drops_what_was_pending_and_waiting(table: Table) -> None:
    table.talk("until 3", "say use float4", "edit text=Z", "goto 1")
    assert table.stepper.pending is None
    table.stepper.advance(Goal.STEP)
    assert table.stepper.pending is not None
    assert table.stepper.pending.arguments == {"text": "B"}
    assert table.said() == []


def test_a_run_that_was_over_is_open_again_after_going_back(sit: Open) -> None:
    table = sit(
        [calls(call("Write", "a", text="A")), DONE, DONE],
        [report("win", 2.0)],
        [report("win", 2.0, final=True)],
        real_files=True,
    )
    text = table.talk("c", "goto 1", "p ledger")
    assert "The run is over: target_reached" in text
    assert "No verdict was taken yet" in text
    assert table.stepper.end is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("back 9", "goes back 2 turns at most"),
        ("back 0", "from 1 on"),
        ("back x", "'x'"),
        ("goto 7", "no turn 7"),
        ("goto", "needs a turn"),
        ("fork", "fork needs a turn"),
        ("fork 1 2", "fork needs a turn"),
        ("fork x", "'x'"),
        ("fork 9", "no turn 9"),
        ("fork 1 --model nobody", "nobody"),
        ("fork 1 --model", "fork needs a turn"),
    ],
)
def test_a_turn_that_is_not_there_is_one_sentence(table: Table, line: str, said: str) -> None:
    table.talk("until 2")
    text = table.talk(line)
    assert [part for part in table.written if part.startswith("*** ") and said in part], text
    assert table.heard.of("rewound") == []
    assert not table.desk.leaving


def test_fork_makes_a_run_to_follow_and_both_name_each_other(table: Table) -> None:
    table.talk("until 4")
    run = table.desk.session.run
    (run.path / "run.json").write_text(
        json.dumps({**table.desk.session.record.document, "schema": 1, "place": {"sandbox": "local"}})
    )
    run.keep_operator({"model.py": b"x"})
    text = table.talk("fork 2 --model=builtin")
    child = table.console.follow
    assert child is not None
    assert f"Forked from turn 2 into {child}" in text
    assert table.agent.stop is None
    assert [event.run for event in table.heard.of("forked")] == [str(child)]
    first = read(child / "trajectory.jsonl")[0]
    assert getattr(first, "parent", None) == {"run": str(run.path), "turn": 2}


OWN = Stopped(3, "stuck", "why")


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([OWN], StopReason.STUCK),
        ([OWN, Resumed(3, "m", {}), Notice(3, "x"), SandboxStarted(3, "local", "/w", "/s")], StopReason.STUCK),
        ([Stopped(3, "interrupted")], None),
        ([Stopped(3, "a later version's")], None),
        ([OWN, Rewound(1)], None),
        ([OWN, Judged(4, {})], None),
        ([], None),
    ],
)
def test_how_a_run_had_ended_that_is_opened_again(events: list[Event], reason: StopReason | None) -> None:
    end = former_end(events)
    assert (end.reason if end else None) is reason


def test_what_was_gone_back_over_does_not_count() -> None:
    verdicts: list[Event] = [Judged(1, {}), Judged(3, {}), Rewound(1), Judged(2, {})]
    assert [event.turn for event in counted(verdicts) if isinstance(event, Judged)] == [1, 2]
