from pathlib import Path
from typing import Any

import pytest

from cuda_agent.config import Settings
from cuda_agent.judging import Submission
from cuda_agent.llm.model import Usage
from cuda_agent.loop.memory import Candidate
from cuda_agent.loop.stop import Stop, StopReason
from cuda_agent.operators import Operator
from cuda_agent.run_dir import RunDir, load_document
from cuda_agent.runs.record import Record
from cuda_agent.runs.summary import run_text
from cuda_agent_judge.report import Interval, Latency, Report

WIN = Report(
    command="verdict",
    status="win",
    reason="it runs at 87.3x of torch.compile's speed",
    final=True,
    speedup={"compile": Interval(87.3, 80.1, 92.4), "eager": Interval(86.0, 79.0, 91.0)},
    latency_ms={"submission": Latency(0.641, 0.63, 0.66, 60), "compile": Latency(56.0, 55.0, 57.0, 60)},
    peak_memory_bytes={"submission": 50_300_000},
    performance={"judgement": {"submission": "memory-bound at 87 % of the measured memory rate", "compile": "x"}},
    checked_calls=40,
    rules={"precision": "ieee"},
    notes=["workers share the judge's user"],
)


def record(tmp_path: Path) -> tuple[Record, RunDir]:
    run = RunDir.create(tmp_path / "run", "op")
    operator = Operator("op", tmp_path / "model.py", {"model.py": b""}, "0" * 64)
    return Record(run, operator, Settings(operator=operator.path), {"target": "cpu"}), run


def keys_called(name: str, value: Any) -> int:
    if isinstance(value, dict):
        return sum((key == name) + keys_called(name, item) for key, item in value.items())
    return sum(keys_called(name, item) for item in value) if isinstance(value, list) else 0


def test_run_json_is_running_from_the_start_and_holds_each_speedup_once_at_the_end(tmp_path: Path) -> None:
    made, run = record(tmp_path)
    assert load_document(run.path)["status"] == "running"
    made.reached(6, [Usage(10, 5), Usage(20, 5, cost_usd=0.5)], Candidate(Submission({}), "turn-0005.json", 5, WIN))
    made.finish(Stop(StopReason.TARGET_REACHED))
    document = load_document(run.path)
    assert (document["status"], document["exit_code"], document["stop"]["reason"]) == ("done", 0, "target_reached")
    assert document["result"]["speedup"] == {
        "compile": {"median": 87.3, "low": 80.1, "high": 92.4},
        "eager": {"median": 86.0, "low": 79.0, "high": 91.0},
    }
    assert keys_called("speedup", document) == 1
    assert document["usage"] == {"input_tokens": 30, "output_tokens": 10, "cached_tokens": 0, "cost_usd": None}
    assert not run.reserve.exists()


def test_the_summary_says_verdict_numbers_and_place(tmp_path: Path) -> None:
    made, run = record(tmp_path)
    made.reached(6, [], Candidate(Submission({}), "turn-0005.json", 5, WIN))
    made.finish(Stop(StopReason.TARGET_REACHED))
    text = run_text(made.document, run.path)
    for words in (
        "win: the kernel is right and at least 5 % faster than torch.compile",
        "0.641 ms",
        "0.63 to 0.66 ms",
        "50.3 MB",
        "87.3x over torch.compile (95 % interval 80.1 to 92.4)",
        "86x over eager",
        "Bound:    memory-bound at 87 % of the measured memory rate",
        "40 calls",
        "workers share the judge's user",
        str(run.best),
        "the target is reached after 6 turns",
    ):
        assert words in text
    assert text.count("87.3") == 1
    assert all(len(line) <= 100 for line in text.splitlines() if str(run.path) not in line)


@pytest.mark.parametrize(("prices", "total"), [([0.0, 0.0], 0.0), ([0.5, None], None), ([0.5, 0.25], 0.75), ([], 0.0)])
def test_what_a_run_cost_is_unknown_only_where_a_price_is(
    tmp_path: Path, prices: list[float | None], total: float | None
) -> None:
    made, _ = record(tmp_path)
    made.reached(1, [Usage(cost_usd=price) for price in prices], None)
    assert made.document["usage"]["cost_usd"] == total


@pytest.mark.parametrize(
    ("reason", "status", "code"),
    [
        (StopReason.GAVE_UP, "done", 1),
        (StopReason.MODEL_ERROR, "failed", 3),
        (StopReason.SANDBOX_LOST, "failed", 3),
        (StopReason.INTERRUPTED, "interrupted", 130),
    ],
)
def test_how_it_ended_is_in_the_status_the_code_and_the_words(
    tmp_path: Path, reason: StopReason, status: str, code: int
) -> None:
    made, run = record(tmp_path)
    made.reached(1, [], None)
    made.finish(Stop(reason, "because"))
    assert (made.document["status"], made.document["exit_code"]) == (status, code)
    text = run_text(made.document, run.path)
    assert "no submission passed" in text
    assert "because) after 1 turn\n" in text
    assert ("\nGo on:    cuda-agent resume " in text) == (status != "done")


def test_a_verdict_of_the_loop_is_never_shown_as_a_final_one(tmp_path: Path) -> None:
    made, run = record(tmp_path)
    report = Report(command="verdict", status="tie", speedup={"eager": Interval(1, 1, 1)}, headline="eager")
    made.reached(1, [], Candidate(Submission({}), "", 1, report))
    made.finish(Stop(StopReason.TIME_LIMIT))
    text = run_text(made.document, run.path)
    assert "tie: the kernel is right, but not clearly 5 % faster than eager (in the loop; no final verdict)" in text


def test_a_failure_is_recorded_with_what_it_said(tmp_path: Path) -> None:
    made, run = record(tmp_path)
    made.fail("Traceback ...\nValueError: x", 3)
    assert load_document(run.path)["status"] == "failed"
    assert "ValueError: x" in run_text(made.document, run.path)
    assert "Traceback" not in run_text(made.document, run.path)
