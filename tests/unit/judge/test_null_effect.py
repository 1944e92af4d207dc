"""What bench.null_effect judges, in which order, and the table that it makes of many judgements."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from bench.null_effect import KINDS, Judged, fewest, summary
from bench.null_operators import operators, submission

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
