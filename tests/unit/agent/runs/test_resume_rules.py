"""When a run may go on, and what may differ then."""

import json
from pathlib import Path
from typing import Any

import pytest

from cuda_agent.errors import ConfigError
from cuda_agent.runs.resume import resume
from cuda_agent.trajectory import Silent


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def document(reason: str, **more: Any) -> str:
    about = {"name": "op", "path": "op.py", "sha256": "0"}
    stop = {"reason": reason, "detail": ""}
    settings = {"operator": "op.py", "max_turns": 5, "polish": 1}
    place = {"sandbox": "local", "python": "/python", "target": "cpu"}
    return json.dumps(
        {"schema": 1, "status": "done", "stop": stop, "operator": about, "settings": settings, "place": place, **more}
    )


@pytest.mark.parametrize(
    ("reason", "changes", "words"),
    [
        ("target_reached", {}, "--polish N"),
        ("target_reached", {"max_turns": 9}, "--polish N"),
        ("target_reached", {"polish": 1}, "--polish N"),
        ("max_turns", {}, "change a limit"),
        ("max_turns", {"max_turns": 5}, "change a limit"),
        ("gave_up", {"python": Path("/other")}, "change a limit"),
        ("stuck", {"precision": "half"}, "'precision' of a run cannot be changed"),
        ("stuck", {"operator": "other.py"}, "'operator' of a run cannot be changed"),
        ("stuck", {"max_turns": 0}, "'max_turns' cannot be 0"),
        ("stuck", {"model": "nonsense"}, "nonsense"),
        # What follows has something to do; it fails one step later, because this folder is no whole run.
        ("target_reached", {"polish": 2}, "trajectory.jsonl|operator"),
        ("max_turns", {"max_turns": 6}, "trajectory.jsonl|operator"),
        ("gave_up", {"model": "scripted:other.json"}, "trajectory.jsonl|operator"),
        ("time_limit", {"time_limit_s": 10.0}, "trajectory.jsonl|operator"),
    ],
)
def test_a_run_that_ended_goes_on_only_with_something_to_do(
    run: Path, reason: str, changes: dict[str, Any], words: str
) -> None:
    (run / "run.json").write_text(document(reason))
    with pytest.raises(ConfigError, match=words):
        resume(run, changes, listener=Silent())


@pytest.mark.parametrize("status", ["running", "interrupted", "failed"])
def test_one_that_did_not_come_to_its_end_always_goes_on(run: Path, status: str) -> None:
    (run / "run.json").write_text(document("interrupted", status=status))
    with pytest.raises(ConfigError, match="operator"):
        resume(run, listener=Silent())
