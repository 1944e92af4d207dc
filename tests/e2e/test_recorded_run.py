"""The run shipped as an example: it is shown again, and executed anew it ends in the same class."""

import json
import shutil
from pathlib import Path

import pytest
from tests.e2e.program import ROOT, cuda_agent

RECORD = ROOT / "examples/runs/diag_matmul"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A copy, so that nothing is written into the example."""
    return Path(shutil.copytree(RECORD, tmp_path / "run"))


def test_it_is_shown_again(run: Path) -> None:
    done = cuda_agent("replay", "run", "--speed", "0", cwd=run.parent)
    assert done.returncode == 0, done.stderr
    assert "final verdict: win" in done.stdout
    shown = cuda_agent("show", "run", cwd=run.parent)
    assert "win: the kernel is right and at least 5 % faster than torch.compile" in shown.stdout


def test_executed_anew_it_ends_in_the_same_class(run: Path, sandbox_python: str) -> None:
    done = cuda_agent(
        "replay", "run", "--execute", "--run-dir", "again", "--python", sandbox_python, "--json",
        cwd=run.parent, timeout_s=900,
    )  # fmt: skip
    said = json.loads(done.stdout)
    assert (said["status"], said["same_class"], done.returncode) == ({"then": "win", "now": "win"}, True, 0), (
        done.stderr
    )
    calls = {(one["tool"], one["kind"]) for one in said["calls"]}
    assert ("MultiEdit", "same") in calls
    assert "added" not in {kind for _, kind in calls}
