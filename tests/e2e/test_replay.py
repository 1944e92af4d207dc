"""A recorded run shown again and executed anew, as a person would ask for it."""

import json
import subprocess
from pathlib import Path

import pytest
from tests.e2e.program import GOOD, command, cuda_agent, environment

SCRIPT = [
    {"text": "I look around.", "calls": [{"name": "Bash", "arguments": {"command": "echo $RANDOM; ls"}}]},
    {"calls": [{"name": "Bash", "arguments": {"command": "case $PWD in */run/*) exit 3 ;; esac"}}]},
    {"calls": [{"name": "Glob", "arguments": {"pattern": "*.py"}}], "text": "And \u001b[31mred\u001b[0m."},
    {"gave_up": "it is as fast as it can be"},
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, sandbox_python: str) -> Path:
    """A folder with a finished run whose operator's file is gone."""
    place = tmp_path_factory.mktemp("replay")
    (place / "good.py").write_text(GOOD)
    (place / "script.json").write_text(json.dumps(SCRIPT))
    done = cuda_agent("optimize", "good.py", "--model", "scripted:script.json", "--run-dir", "run", "--target", "cpu",
                      "--python", sandbox_python, "--operator-timeout", "77", cwd=place)  # fmt: skip
    assert done.returncode == 1, done.stderr
    (place / "good.py").unlink()
    return place


def test_it_is_shown_again_as_it_was_shown(place: Path) -> None:
    done = cuda_agent("replay", "run", "--speed", "0", cwd=place)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "[turn 1] I look around." in lines
    assert any(line.startswith("[turn 3]   Glob: *.py") for line in lines)
    assert "\u001b" not in done.stdout
    events = json.loads(cuda_agent("replay", "run", "--json", cwd=place).stdout)
    assert events[0]["type"] == "run_started"
    assert events[-1]["type"] == "stopped"


def test_step_by_step_one_leaves_when_one_wants(place: Path) -> None:
    done = subprocess.run(
        command("replay", "run", "--step"),
        cwd=place, env=environment(), input="\n\n\nq\n", capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("-- Enter for the next") == 4
    assert "it is as fast as it can be" not in done.stdout


def test_executed_anew_it_says_where_reality_differs(place: Path, sandbox_python: str) -> None:
    # In a folder of another name the second call ends well.
    done = cuda_agent(
        "replay", "run", "--execute", "--run-dir", "again", "--python", sandbox_python, "--json", cwd=place
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["status"] == {"then": "gave_up", "now": "gave_up"}
    assert [(one["tool"], one["kind"]) for one in said["calls"]] == [
        ("Bash", "numbers"),
        ("Bash", "outcome"),
        ("Glob", "same"),
    ]
    assert Path(said["run"]).name == "again"
    document = json.loads((place / "again/run.json").read_text())
    assert document["settings"]["target"] == "cpu"
    assert document["settings"]["operator_timeout_s"] == 77


def test_what_is_no_run_is_one_sentence(place: Path) -> None:
    done = cuda_agent("replay", "nowhere", "--execute", cwd=place)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "'nowhere' is not a run's folder" in done.stderr
