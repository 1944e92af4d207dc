import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cuda_agent.batch.faults import Fault, Verdict
from cuda_agent.batch.jobs import Job
from cuda_agent.batch.trail import Trail, account_of
from cuda_agent.cli.batch_rows import AtWork, Board, ended_line
from cuda_agent.files import LineFile
from cuda_agent.trajectory import (
    Judged,
    Known,
    MessageAdded,
    Resumed,
    RunStarted,
    Silent,
    StageStarted,
    Stopped,
    Trajectory,
    line,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
JOB = Job("op", "op.py", "/op.py", "op", "", "builtin", "sha")


def write(file: Path, *events: tuple[float, Known]) -> None:
    """Append events as the program does, at so many seconds."""
    with file.open("ab") as out:
        for seq, (at, event) in enumerate(events):
            out.write(line(event, seq, START + timedelta(seconds=at)) + b"\n")


def started() -> RunStarted:
    return RunStarted("op", "sha", "builtin", {}, {})


def report(status: str, speed: float | None = None, **more: object) -> dict[str, object]:
    one = {"compile": {"median": speed, "low": speed, "high": speed}} if speed else {}
    return {"status": status, "speedup": one, "submission_sha256": "s", "final": False, **more}


def test_only_what_is_new_is_read_and_a_line_that_is_being_written_waits(tmp_path: Path) -> None:
    file = tmp_path / "trajectory.jsonl"
    trail = Trail(file)
    assert list(trail.new_events()) == []
    file.write_bytes(b'{"type": "a"}\n{"type": "b"}\n{"ty')
    assert [event["type"] for event in trail.new_events()] == ["a", "b"]
    assert list(trail.new_events()) == []
    with file.open("ab") as out:
        out.write(b'pe": "c"}\nspoilt\n{"type": "d"}\n')
    assert [event["type"] for event in trail.new_events()] == ["c", "d"]
    data = bytearray(file.read_bytes())
    data[:10] = b"x" * 10  # what was read once is not read again
    file.write_bytes(data + b'{"type": "e"}\n')
    assert [event["type"] for event in trail.new_events()] == ["e"]


@pytest.mark.parametrize("length", [10, 1 << 20, (1 << 20) + 1, 3 << 20])
def test_lines_of_any_length_come_whole(tmp_path: Path, length: int) -> None:
    file = tmp_path / "trajectory.jsonl"
    file.write_text("".join(json.dumps({"type": "x", "text": "y" * length}) + "\n" for _ in range(2)))
    assert [len(event["text"]) for event in Trail(file).new_events()] == [length, length]


def test_time_between_two_processes_is_no_work_and_what_was_held_is_summed(tmp_path: Path) -> None:
    file = tmp_path / "trajectory.jsonl"
    held = {"device_s": 2.0, "device_wait_s": 0.5}
    write(file, (0, started()), (10, Judged(1, report("win", 2.0, held=held))), (100, Resumed(1, "builtin", {})),
          (105, Judged(2, report("tie", 1.0, held=held))), (107, Stopped(2, "gave_up")))  # fmt: skip
    account = account_of(file)
    assert account.work_s == 17.0
    assert account.held == {"device_s": 4.0, "device_wait_s": 1.0}
    assert account.last_verdict is not None
    assert account.last_verdict["status"] == "tie"


def test_what_the_program_itself_writes_is_understood(tmp_path: Path) -> None:
    file = tmp_path / "trajectory.jsonl"
    with LineFile(file) as log:
        trajectory = Trajectory(log, Silent())
        for event in (started(), Judged(1, report("win", 2.0)), Stopped(1, "gave_up")):
            trajectory.add(event)
    assert account_of(file).last_verdict is not None


def test_a_row_follows_its_run(tmp_path: Path) -> None:
    row = AtWork(JOB, tmp_path, 0.0)
    row.follow()
    assert (row.stage, row.turn, row.best, row.cost) == ("start", 0, "", "$0.00")
    file = tmp_path / "trajectory.jsonl"
    said = MessageAdded(1, "assistant", "x", usage={"cost_usd": 0.5})
    write(file, (0, started()), (1, StageStarted(1, "model")), (2, said), (3, Judged(1, report("win", 3.0))))
    row.follow()
    assert (row.stage, row.turn, row.best, row.cost) == ("model", 1, "3x", "$0.50")
    write(file, (4, Judged(2, report("incorrect"))), (5, MessageAdded(2, "assistant", "x", usage={"cost_usd": None})))
    row.follow()
    assert (row.turn, row.best, row.cost) == (2, "", "unknown")  # refuted, and a price nobody knows


def test_the_forecast_goes_by_the_runs_that_ended_last(tmp_path: Path) -> None:
    now = [0.0]
    board = Board(clock=lambda: now[0])
    board.planned(total=100, left=90)
    for _ in range(40):
        now[0] += 60
        board.began(JOB, tmp_path)
        board.ended(JOB, Verdict(Fault.NONE), None, again=False)
    assert board.rate_per_s == pytest.approx(1 / 60)
    assert "50/100, 0 won now, 0 failed now, 60 an hour, about 50:00 min left" in board.standing
    board.ended(JOB, Verdict(Fault.INFRASTRUCTURE, "gone"), None, again=True)
    assert board.done == 50  # it is tried again


@pytest.mark.parametrize(("final", "words", "won"), [(True, "win, 2x", 1), (False, "win in the loop, 2x", 0)])
def test_only_a_final_verdict_wins(tmp_path: Path, final: bool, words: str, won: int) -> None:
    stop = {"reason": "gave_up", "detail": ""}
    document = {"status": "done", "turns": 4, "stop": stop, "result": report("win", 2.0, final=final)}
    said = ended_line(JOB, Verdict(Fault.NONE), document, again=False)
    assert said == f"op: {words} over torch.compile (gave up, 4 turns)"
    board = Board()
    board.began(JOB, tmp_path)
    board.ended(JOB, Verdict(Fault.NONE), document, again=False)
    assert board.won == won


@pytest.mark.parametrize(
    ("verdict", "again", "words"),
    [
        (Verdict(Fault.INFRASTRUCTURE, "gone"), True, "op: failed: gone (again later)"),
        (Verdict(Fault.INFRASTRUCTURE, "gone"), False, "op: failed: gone"),
        (Verdict(Fault.OPERATOR, "no class\nModel"), False, "op: the operator cannot be used: no class Model"),
        (Verdict(Fault.STOPPED), True, "op: stopped"),
    ],
)
def test_an_end_is_one_line(verdict: Verdict, again: bool, words: str) -> None:
    assert ended_line(JOB, verdict, None, again=again) == words
