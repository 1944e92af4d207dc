"""What bench.null_effect judges, in which order, and the table that it makes of many judgements."""

import json
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from bench.judgements import KINDS, Judged, prepared, read
from bench.null_effect import Work, fewest, summary
from bench.null_operators import operators, submission

from cuda_agent_judge import session
from cuda_agent_judge.processes import JudgeFault
from cuda_agent_judge.slots import Slots

NAMES = sorted(operators("cpu"))


@pytest.mark.parametrize("name", NAMES)
def test_each_operator_runs_and_its_submission_takes_the_same(name: str) -> None:
    source = operators("cpu")[name]
    operator, mine = ModuleType("operator"), ModuleType("submission")
    exec(source, operator.__dict__)
    # Not compiled, which takes seconds, nor with its caches.
    exec(submission(source, "").replace("torch.compile", "").replace("os.environ[name] =", ""), mine.__dict__)
    inputs = operator.get_inputs()
    assert torch.equal(mine.ModelNew()(*inputs), operator.Model()(*inputs))


def test_both_targets_have_the_same_ten_operators() -> None:
    assert len(NAMES) == 10
    assert sorted(operators("cuda")) == NAMES


def line(operator: str, kind: str, status: str, ratio: list[float] | None, **more: Any) -> dict[str, Any]:
    return {
        "operator": operator,
        "kind": kind,
        "target": "cpu",
        "status": status,
        "ratio": ratio,
        "ms": {"compile": 1.5},
        "load": 2.0,
        "seconds": 1.0,
    } | more


def test_a_process_that_has_ended_is_said_in_one_sentence(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    answer = json.dumps({"code": 3, "stdout": "", "stderr": "it failed\n"})
    closing = ["sh", "-c", 'read request; exec <&-; printf "%s\\n" "$1"', "sh", answer]
    with Judged(closing) as judged:
        assert judged.line(tmp_path, "same", {})["status"] == "judge failed"
        assert capfd.readouterr().err == "it failed\n"
        with pytest.raises(SystemExit, match="the process that judgements are forked from ended"):
            judged.line(tmp_path, "same", {})  # nobody reads any more


def test_what_was_judged_the_least_comes_first_until_all_is_done() -> None:
    done = [line("a", kind, "tie", None) for kind in KINDS] + [
        line("b", kind, "tie", None) for kind in ("same", "loss")
    ]
    assert fewest(done, ["a", "b"], list(KINDS), 1) == ("b", "gain")
    done.append(line("b", "gain", "win", None))
    assert fewest(done, ["a", "b"], list(KINDS), 1) is None
    done += [line("a", "same", "tie", None), line("a", "loss", "tie", None)]
    assert fewest(done, ["a", "b"], ["same", "gain"], 2) in {("a", "gain"), ("b", "same"), ("b", "gain")}


def test_several_at_once_judge_other_operators_and_wait_for_one_that_is_busy(tmp_path: Path) -> None:
    work = Work(tmp_path / "lines", "cpu", dict.fromkeys("ab", ""), ["same", "gain"], 1)
    (first, kind), second = work.take() or ("", ""), work.take()
    assert second is not None
    assert {first, second[0]} == {"a", "b"}
    with ThreadPoolExecutor(1) as pool:
        third = pool.submit(work.take)
        assert not wait([third], timeout=0.2).done
        work.give(first, line(first, kind, "tie", None))
        assert third.result() == (first, "gain" if kind == "same" else "same")
    work.give(*second[:1], line(*second, "tie", None))
    work.give(first, line(first, "gain" if kind == "same" else "same", "tie", None))
    last = work.take()
    assert last is not None
    assert last[0] == second[0]
    work.give(last[0], line(*last, "tie", None))
    assert work.take() is None
    assert len(read(tmp_path / "lines")) == 4


def test_what_goes_wrong_in_one_ends_all_and_so_does_the_time(tmp_path: Path) -> None:
    work = Work(tmp_path / "lines", "cpu", dict.fromkeys("a", ""), ["same"], 2)
    assert work.take() is not None
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(work.take)
        work.give("a", None)
        assert other.result() is None
    assert Work(tmp_path / "lines", "cpu", dict.fromkeys("a", ""), ["same"], 2, time.monotonic()).take() is None
    assert read(tmp_path / "lines") == []


def test_what_cannot_be_kept_ends_all(tmp_path: Path) -> None:
    work = Work(tmp_path / "no folder" / "lines", "cpu", dict.fromkeys("a", ""), ["same"], 2)
    assert work.take() is not None
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(work.take)
        with pytest.raises(FileNotFoundError):
            work.give("a", line("a", "same", "tie", None))
        assert other.result() is None


def test_judgements_take_turns_by_the_judges_own_locks(tmp_path: Path) -> None:
    places = [prepared(tmp_path / name, "", "cpu") for name in "ab"]
    queues = [Slots("cpu", _locks(place)).device for place in places]
    with queues[0].held(), pytest.raises(JudgeFault), Slots("cpu", _locks(places[1]), wait_limit_s=0).device.held():
        pass
    with queues[1].held():
        assert [queue.note for queue in queues] == ["", ""]


def _locks(place: Path) -> Path | None:
    return session.load(place / "session").locks


def test_the_table_counts_by_kind_and_names_what_is_furthest_from_the_truth() -> None:
    lines = [
        line("a", "same", "tie", [0.97, 0.98, 1.0]),
        line("a", "same", "tie", [0.99, 1.01, 1.02]),
        line("b", "gain", "win", [0.9, 0.925, 0.93], ms={"compile": 0.5}),
        line("b", "gain", "incorrect", None, ms={}, load=9.5),
    ]
    made = summary(lines).splitlines()
    assert made[0] == "Target `cpu`, load average 2.0 to 9.5:"
    assert "| same | a | 2 | 0 | 2 | 0 | 0 | 0 | 1.5 | 0.9950 | 3.0 % | 0.9800 |" in made
    assert "| gain | b | 2 | 1 | 0 | 0 | 0 | 1 | 0.5 | 0.9250 | 3.2 % | 0.9250 |" in made
    assert summary([line("a", "same", "tie", None, commit=one) for one in "dcd"]).startswith(
        "Target `cpu`, load average 2.0 to 2.0, commits c, d:"
    )
    assert any(row.startswith("| **gain** | all; to be: a win in at least 57 of 60 | 2 | 1 |") for row in made)
