import json
from pathlib import Path

import pytest
from tests.e2e.program import cuda_agent

from cuda_agent.files import LineFile
from cuda_agent.run_dir import RunDir
from cuda_agent.trajectory import (
    CallStarted,
    Judged,
    MessageAdded,
    Observation,
    RunStarted,
    Silent,
    Stopped,
    Trajectory,
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    made = RunDir.create(tmp_path / "a rün", "op")
    with LineFile(made.trajectory) as lines:
        trajectory = Trajectory(lines, Silent())
        trajectory.add(RunStarted("op", "", "scripted", {}, {}))
        trajectory.add(MessageAdded(1, "assistant", "I will look."))
        trajectory.add(CallStarted(1, "a", "Bash", {"command": "ls kernels"}))
        trajectory.add(Observation(1, "a", "Bash", "k.cpp\x1b[2J", False, 0.1))
        trajectory.add(CallStarted(1, "b", "TodoWrite", {"todos": [{"content": "Plan", "status": "completed"}]}))
        edits = [{"old_string": "int x;\n", "new_string": "long x;\nlong y;\n"}]
        trajectory.add(CallStarted(1, "c", "MultiEdit", {"file_path": "a.cpp", "edits": edits}))
        trajectory.add(Judged(1, {"status": "incorrect", "reason": "off by 3"}))
        trajectory.add(Stopped(1, "gave_up", "no recipe"))
    made.save(
        {
            "status": "done",
            "turns": 1,
            "stop": {"reason": "gave_up", "detail": "no recipe"},
            "result": None,
            "error": None,
        }
    )
    return made.path


def test_show_tells_how_it_ended(run: Path) -> None:
    done = cuda_agent("show", run.name, cwd=run.parent)
    assert (done.returncode, done.stderr) == (0, "")
    assert "the model gave up (no recipe) after 1 turn" in done.stdout
    assert "I will look" not in done.stdout


def test_the_transcript_has_every_message_call_and_verdict(run: Path) -> None:
    done = cuda_agent("show", run.name, "--transcript", cwd=run.parent)
    assert done.returncode == 0
    places = [
        done.stdout.index(word) for word in ("I will look.", "ls kernels", "k.cpp", "off by 3", "stopped: gave_up")
    ]
    assert places == sorted(places)


def test_the_transcript_shows_plans_and_edits_as_text_and_nothing_a_terminal_obeys(run: Path) -> None:
    shown = cuda_agent("show", run.name, "--transcript", cwd=run.parent).stdout
    assert "todos:\n  [x] Plan\n" in shown
    assert "edits:\n  - int x;\n  + long x;\n  + long y;\n" in shown
    assert "\x1b" not in shown


def test_json_is_one_document_with_the_events_when_asked(run: Path) -> None:
    plain = json.loads(cuda_agent("show", run.name, "--json", cwd=run.parent).stdout)
    full = json.loads(cuda_agent("show", run.name, "--json", "--transcript", cwd=run.parent).stdout)
    assert plain["status"] == "done"
    assert "events" not in plain
    assert [event["type"] for event in full["events"]][-1] == "stopped"
