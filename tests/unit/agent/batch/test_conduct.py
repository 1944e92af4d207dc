"""What becomes of the jobs of a batch, whatever their runs do."""

import csv
import errno
import json
import os
import signal
from pathlib import Path

import pytest
from tests.unit.agent.batch.field import PROGRAM, Field, by_name

from cuda_agent.batch.batch_dir import BatchDir
from cuda_agent.batch.conduct import Conductor, End, Means
from cuda_agent.batch.jobs import plan
from cuda_agent.batch.listing import Selection, find
from cuda_agent.batch.local import LocalEngine
from cuda_agent.batch.results import Category
from cuda_agent.batch.running import Attempt, Halt, Patience
from cuda_agent.config import Settings
from cuda_agent.files import LineFile, writing

FAULTS = {
    # what the run does: (category, attempts with two retries, why it stopped)
    "crash": (Category.INFRASTRUCTURE, 3, "signal 6"),
    "memory": (Category.INFRASTRUCTURE, 3, "out of memory"),
    "daemon": (Category.INFRASTRUCTURE, 3, "container is gone"),
    "flaky 2": (Category.COUNTED, 3, ""),
    "bad": (Category.UNUSABLE, 1, "class Model"),
    "refused": (Category.COUNTED, 1, ""),
    "degenerate": (Category.NOT_COUNTED, 1, ""),
    "tie": (Category.COUNTED, 1, ""),
    "limit": (Category.AT_LIMIT, 1, "no kernel can win by 5 % here"),
    "limit_tie": (Category.COUNTED, 1, ""),
}


def test_each_fault_is_counted_for_what_it_is_and_the_healthy_ones_do_not_hear_of_it(field: Field) -> None:
    field.lay(**{f"healthy_{n}": "win" for n in range(3)}, **{does.split()[0]: does for does in FAULTS})
    outcome = field.carry_out(workers=4)
    found = by_name(outcome)
    assert [found[f"healthy_{n}"].status for n in range(3)] == ["win"] * 3
    assert {does: (found[does.split()[0]].category, found[does.split()[0]].attempts) for does in FAULTS} == {
        does: (category, attempts) for does, (category, attempts, _) in FAULTS.items()
    }
    assert [does for does, (_, _, words) in FAULTS.items() if words not in found[does.split()[0]].message] == []
    assert (outcome.ending.end, outcome.exit_code) == (End.DONE, 3)
    overall = json.loads((field.batch / "batch.json").read_text())["results"][0]
    # Wins, ties and a refusal count; what crashed, died or could not be used does not, nor what nobody could win.
    assert overall["by_category"] == {
        "counted": 7, "at hardware limit": 1, "not counted": 1, "unusable": 1, "infrastructure": 3, "open": 0
    }  # fmt: skip
    assert (overall["counted"], overall["correct"], overall["failures"]) == (7, 6, 11)


def test_operators_that_no_kernel_can_win_stand_apart_in_every_table_and_move_no_rate(field: Field) -> None:
    field.lay(one="win", two="tie", three="refused")
    before = field.carry_out(workers=3)
    field.lay(four="limit")
    after = field.carry_out(workers=3)
    rates = [
        (found.passed, found.faster, found.fast_p) for found in (o.results.groups[0].numbers for o in (before, after))
    ]
    assert rates[0] == rates[1]
    assert after.exit_code == 1
    text = (field.batch / "results.md").read_text()
    assert "2 of 3, 1 at the limit |" in text
    assert "At hardware limit (1):\n- four: no kernel can win by 5 % here" in text
    assert text.count("Left out of every rate: 1 operator at the hardware's limit") == 4
    assert "2 of 3, 1 at the limit" in after.results.summary
    table = {one["job"]: one for one in csv.DictReader((field.batch / "results.csv").read_text().splitlines())}
    assert (table["four"]["category"], table["four"]["status"]) == ("at hardware limit", "at_hardware_limit")
    assert table["four"]["correct"] == "0"


def test_a_batch_in_which_no_kernel_can_win_says_so_and_did_not_reach_its_targets(field: Field) -> None:
    field.lay(one="limit")
    outcome = field.carry_out()
    assert outcome.exit_code == 1
    assert "right kernel        0 of 0, 1 at the limit" in outcome.results.summary


def test_a_run_that_writes_nothing_any_more_is_ended(field: Field) -> None:
    field.lay(one="hang")
    found = by_name(field.carry_out(retries=0, patience=Patience(quiet_s=2.0, ending_s=0.5)))["one"]
    assert "hung" in found.message
    assert found.category is Category.INFRASTRUCTURE


def test_no_more_run_at_once_than_there_are_workers(field: Field) -> None:
    field.lay(**{f"op_{n}": "win 0.05" for n in range(8)})
    field.carry_out(workers=3)
    assert field.heard.most_at_once == 3


def test_runs_are_spread_over_the_gpus_and_each_sees_its_own(field: Field) -> None:
    field.lay(**{f"op_{n}": "win 0.1" for n in range(6)})
    field.carry_out(workers=4, gpus=("GPU-a", "GPU-b"))
    seen = [line.split()[1] for n in range(6) for line in (field.operators / f"starts/op_{n}").read_text().splitlines()]
    assert sorted(set(seen)) == ["GPU-a", "GPU-b"]
    assert min(seen.count("GPU-a"), seen.count("GPU-b")) >= 2


def test_what_a_run_leaves_in_its_group_ends_with_it(field: Field) -> None:
    field.lay(one="child")
    assert field.carry_out().exit_code == 0
    stat = Path(f"/proc/{(field.operators / 'starts/child').read_text()}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in "ZX"


@pytest.mark.parametrize(("does", "words"), [("disk", "disk is full"), ("key", "key is dead"), ("config", "model")])
def test_what_every_run_would_meet_pauses_the_batch_and_the_same_command_goes_on(
    field: Field, does: str, words: str
) -> None:
    field.lay(**{f"op_{n}": does for n in range(10)})
    outcome = field.carry_out(workers=2)
    assert outcome.ending.end is End.PAUSED
    assert outcome.exit_code == 3
    assert words in outcome.ending.message
    assert sum(len(field.starts(f"op_{n}")) for n in range(10)) <= 3
    assert {row.category for row in outcome.results.rows} == {Category.OPEN}
    assert field.carry_out(workers=2).ending.end is End.PAUSED  # still not mended


def test_a_batch_that_was_paused_ends_once_the_cause_is_mended(field: Field) -> None:
    field.lay(**{f"op_{n}": "win" for n in range(4)})
    room = ["The disk of '/x' has only 3 MB left; free some space."]
    outcome = field.carry_out(no_room=lambda: room[0])
    assert outcome.ending.end is End.PAUSED
    assert "3 MB left" in outcome.ending.message
    assert "4 of 4 are left to do" in outcome.ending.message
    room[0] = ""
    assert field.carry_out(no_room=lambda: room[0]).exit_code == 0


def test_a_machine_on_which_nothing_works_pauses_the_batch(field: Field) -> None:
    field.lay(**{f"op_{n}": "daemon" for n in range(30)})
    outcome = field.carry_out(workers=2)
    assert outcome.ending.end is End.PAUSED
    assert "whatever their operators: The container is gone." in outcome.ending.message
    assert sum(len(field.starts(f"op_{n}")) for n in range(30)) < 30


def test_an_interrupt_reaches_runs_though_whoever_starts_them_blocks_it(field: Field) -> None:
    field.lay(one="win 60")
    log = field.batch / "runs" / "one" / "trajectory.jsonl"

    def halt() -> Halt:
        return Halt.IN_ORDER if log.exists() and b'"turn": 1' in log.read_bytes() else Halt.NO

    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})  # threads inherit it
    try:
        field.carry_out(halt=halt)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    document = json.loads((field.batch / "runs" / "one" / "run.json").read_text())
    assert (document["status"], document["turns"]) == ("interrupted", 1)


@pytest.mark.parametrize("how", [Halt.IN_ORDER, Halt.AT_ONCE])
def test_an_interrupt_ends_what_runs_and_the_same_command_goes_on_with_it(field: Field, how: Halt) -> None:
    field.lay(**{f"op_{n}": "win 600" if n < 2 else "win" for n in range(4)})

    def halt() -> Halt:
        logs = [*field.batch.glob("runs/*/trajectory.jsonl")]
        return how if len(logs) == 2 and all(b'"turn": 1' in log.read_bytes() for log in logs) else Halt.NO

    outcome = field.carry_out(halt=halt)
    assert (outcome.ending.end, outcome.exit_code) == (End.INTERRUPTED, 130)
    finals = [b'"final": true' in log.read_bytes() for log in field.batch.glob("runs/*/trajectory.jsonl")]
    assert finals == [how is Halt.IN_ORDER] * 2
    assert [row.category for row in outcome.results.rows] == [Category.OPEN] * 4
    assert field.carry_out(workers=4).exit_code == 0
    assert [field.starts(f"op_{n}") for n in range(4)] == [["optimize", "resume"]] * 2 + [["optimize"]] * 2


def test_a_run_that_somebody_interrupts_is_gone_on_with(field: Field) -> None:
    field.lay(one="win 600")
    done: list[int] = []

    def interrupt() -> None:
        log = field.batch / "runs/one/trajectory.jsonl"
        if not done and log.exists() and b'"turn": 1' in log.read_bytes():
            for entry in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    line = entry.read_bytes()
                except OSError:
                    continue
                if b"stand_in.py\0optimize\0" + str(field.operators).encode() in line:
                    os.kill(int(entry.parent.name), signal.SIGINT)
                    done.append(1)

    field.heard.on_tick = interrupt
    outcome = field.carry_out()
    assert by_name(outcome)["one"].status == "win"
    assert by_name(outcome)["one"].failures == 1
    assert field.starts("one") == ["optimize", "resume"]


class Full(LocalEngine):
    """A placement that has to write something before the first run."""

    def begin(self, attempt: Attempt) -> None:
        with writing(attempt.log):
            raise OSError(errno.ENOSPC, "No space left on device")


def test_a_disk_that_is_full_where_a_placement_writes_pauses_the_batch_before_the_run(field: Field) -> None:
    field.lay(one="win")
    batch = BatchDir(field.batch)
    jobs = plan(find(field.operators, Selection()).operators, ["builtin"])
    means = Means(settings=Settings(operator=field.operators), program=PROGRAM)
    with batch.lock() as log, Full(1) as engine:
        ending = Conductor(batch, log, engine, means, field.heard, {}).conduct(jobs)
    assert (ending.end, field.heard.began_) == (End.PAUSED, [])
    assert "disk is full" in ending.message
    assert by_name(field.carry_out())["one"].status == "win"
    assert field.starts("one") == ["optimize"]


def test_a_disk_that_is_full_where_the_batch_writes_its_own_log_pauses_it_and_loses_no_run(field: Field) -> None:
    field.lay(one="win", two="win", three="win")
    batch = BatchDir(field.batch)
    batch.lock().close()
    jobs = plan(find(field.operators, Selection()).operators, ["builtin"])
    means = Means(settings=Settings(operator=field.operators), program=PROGRAM)
    with LocalEngine(1) as engine, LineFile(Path("/dev/full")) as log:
        ending = Conductor(batch, log, engine, means, field.heard, {}).conduct(jobs)
    assert ending.end is End.PAUSED
    assert "disk is full" in ending.message
    assert [path.name for path in batch.runs.iterdir()] == ["one"]
    assert by_name(field.carry_out())["one"].status == "win"
    assert [field.starts(name) for name in ("one", "two", "three")] == [["optimize"]] * 3
