"""`resume` and `fork` as a person uses them: a run killed in a tool, its operator gone, its limit reached."""

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.program import GOOD, command, cuda_agent, environment

from cuda_agent.history import read
from cuda_agent.runs import travel
from cuda_agent.trajectory import Forked, MessageAdded, Observation, Resumed, RunStarted, SnapshotTaken, TurnEnded

SLEEP = f"sleep 302.{100000 + os.getpid()}"
BACKGROUND = f"echo half done; sleep 303.{100000 + os.getpid()}"
ENDED = "echo quite done"
UNKNOWN = "Interrupted, state unknown"


def bash(text: str, **more: Any) -> dict[str, Any]:
    return {"name": "Bash", "arguments": {"command": text, "description": "x", **more}}


SCRIPT = [
    {
        "calls": [
            bash(ENDED, run_in_background=True),
            bash(BACKGROUND, run_in_background=True),
            bash("STATE=$PWD/../state; mkdir -p kernels/deep; cd kernels/deep; export MARK=7; printf one > ../k.cpp"),
            bash("until grep -q half $STATE/jobs/2-*.log && [ ! -e $STATE/jobs/1-*.job ]; do sleep 0.05; done; true"),
            bash("true"),
        ]
    },
    {"calls": [bash("printf two > ../k.cpp; echo begun > ../begun"), bash(SLEEP), bash("echo never > never")]},
    {"calls": [bash('echo "$MARK in $PWD"; cat ../k.cpp ../begun ../../../state/jobs/*.log; ls')]},
    {"gave_up": "seen enough"},
]
OTHER = [{"calls": [bash('echo "$MARK in $PWD"; cat ../k.cpp; ls ..')]}, {"gave_up": "seen enough too"}]


def running(words: str) -> bool:
    """Whether a process has these words in its command line."""
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            continue
        if line.startswith(words.encode()):
            return True
    return False


class Killed:
    """A run that was killed with -9 during the second of three calls."""

    def __init__(self, folder: Path, python: str) -> None:
        self.folder, self.run, self._python = folder, folder / "a run", python
        (folder / "good.py").write_text(GOOD)
        (folder / "script.json").write_text(json.dumps(SCRIPT))
        (folder / "other.json").write_text(json.dumps(OTHER))
        arguments = ("optimize", "good.py", "--model", "scripted:script.json", "--run-dir", self.run, "--max-turns", 3)
        program = subprocess.Popen(
            command(*map(str, arguments), "--python", python, "--target", "cpu"),
            cwd=folder,
            env=environment(),
            stdout=subprocess.DEVNULL,
        )
        while not running(SLEEP):
            assert program.poll() is None
            time.sleep(0.05)
        self.refused = self.call("resume", self.run)
        program.kill()
        program.wait()
        self.written = self.log.read_bytes()
        (folder / "good.py").unlink()

    @property
    def log(self) -> Path:
        return self.run / "trajectory.jsonl"

    def call(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return cuda_agent(*arguments, cwd=self.folder)

    def document(self, run: Path) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((run / "run.json").read_text())
        return loaded


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory, sandbox_python: str) -> Killed:
    return Killed(tmp_path_factory.mktemp("größe"), sandbox_python)


@pytest.fixture(scope="module")
def resumed(killed: Killed) -> subprocess.CompletedProcess[str]:
    with open(killed.log, "ab") as log:
        log.write(b'{"schema": 1, "seq": 99, "ty')  # it was killed while it wrote, too
    return killed.call("resume", killed.run)


def answers(run: Path) -> dict[str, str]:
    return {event.id: event.text for event in read(run / "trajectory.jsonl") if isinstance(event, Observation)}


def test_a_running_run_is_refused_in_one_sentence(killed: Killed) -> None:
    assert killed.refused.returncode == 2
    assert killed.refused.stderr.count("\n") == 1
    assert "is running in another process" in killed.refused.stderr


def test_nothing_of_the_killed_run_runs_on(resumed: subprocess.CompletedProcess[str]) -> None:
    assert not running(SLEEP)


def test_the_run_goes_on_to_its_limit_and_says_what_was_mended(
    killed: Killed, resumed: subprocess.CompletedProcess[str]
) -> None:
    assert resumed.returncode == 1, resumed.stderr
    assert "bytes were cut off" in resumed.stdout
    assert killed.log.read_bytes().startswith(killed.written)
    document = killed.document(killed.run)
    assert (document["status"], document["stop"]["reason"], document["turns"]) == ("done", "max_turns", 3)
    assert document["resumed"][0]["status"] == "running"


def test_dangling_calls_were_answered_as_unknown_and_none_ran_again(
    killed: Killed, resumed: subprocess.CompletedProcess[str]
) -> None:
    found = answers(killed.run)
    assert [name for name, text in found.items() if text.startswith(UNKNOWN)] == ["call-2-2", "call-2-3"]
    assert "never" not in found["call-3-1"]


def messages(run: Path) -> list[str]:
    return [
        one.content for one in read(run / "trajectory.jsonl") if isinstance(one, MessageAdded) and one.role == "user"
    ]


def test_the_model_is_told_of_background_commands_that_are_gone_and_reads_what_they_printed(
    killed: Killed, resumed: subprocess.CompletedProcess[str]
) -> None:
    assert not running(BACKGROUND.partition("; ")[2])
    [told] = [text for text in messages(killed.run) if text.startswith("What ran in the background")]
    first, *jobs = told.splitlines()
    assert first.startswith("What ran in the background does not run any more")
    # Job 1 stands there, too, where the kill came before the model was told of its end.
    [job] = [line for line in jobs if line.startswith("- job 2: ")]
    assert job.startswith(f"- job 2: `{BACKGROUND}`, its output until then is in /")
    assert re.search(
        rf"^{re.escape(str(killed.run))}/state/jobs/2-[0-9a-f]+\.log$", job.partition("until then is in ")[2]
    )
    assert "half done" in answers(killed.run)["call-3-1"]


def test_files_stay_as_they_were_and_the_shell_is_where_it_was(
    killed: Killed, resumed: subprocess.CompletedProcess[str]
) -> None:
    text = answers(killed.run)["call-3-1"]
    assert f"7 in {killed.run}/workspace/kernels/deep" in text
    assert "twobegun" in text


def test_a_run_that_came_to_its_end_needs_something_to_do(
    killed: Killed, resumed: subprocess.CompletedProcess[str]
) -> None:
    done = killed.call("resume", killed.run)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "max turns" in done.stderr
    assert "--max-turns" in done.stderr


@pytest.fixture(scope="module")
def forked(killed: Killed, resumed: subprocess.CompletedProcess[str]) -> Path:
    """A fork from the end of turn 1 by another model, with the parent's workspace gone."""
    shutil.rmtree(killed.run / "workspace")
    done = killed.call("fork", killed.run, "1", "--model", "scripted:other.json")
    assert done.returncode == 1, done.stderr
    return killed.folder / "a run-fork-1"


def test_a_fork_goes_on_from_the_middle_in_a_workspace_of_its_own(killed: Killed, forked: Path) -> None:
    text = answers(forked)["call-1-1"]
    assert f"7 in {forked}/workspace/kernels/deep" in text
    assert "one" in text
    assert "begun" not in text
    assert not (killed.run / "workspace").exists()
    document = killed.document(forked)
    assert document["stop"] == {"reason": "gave_up", "detail": "seen enough too"}


def test_the_model_of_a_fork_is_told_that_background_commands_do_not_run_there(killed: Killed, forked: Path) -> None:
    [told] = [text for text in messages(forked) if text.startswith("What ran in the background")]
    assert f"\n- job 2: `{BACKGROUND}`, its output until then is in {forked}/state/jobs/2-" in told
    assert any("half done" in log.read_text() for log in (forked / "state/jobs").iterdir())


def test_both_know_of_each_other(killed: Killed, forked: Path) -> None:
    first = read(forked / "trajectory.jsonl")[0]
    assert isinstance(first, RunStarted)
    assert first.parent == {"run": str(killed.run), "turn": 1}
    assert killed.document(forked)["parent"] == {"run": str(killed.run), "turn": 1}
    told = [event for event in read(killed.log) if isinstance(event, Forked)]
    assert told == [Forked(1, str(forked), "scripted:other.json")]


def test_what_the_model_of_the_fork_read_is_the_parents_history_up_to_there(killed: Killed, forked: Path) -> None:
    events = read(forked / "trajectory.jsonl")
    fork = next(place for place, event in enumerate(events) if isinstance(event, Resumed))
    assert events[1:fork] == read(killed.log)[1:fork]
    assert isinstance(events[fork - 1], TurnEnded)
    turns = [event.turn for event in events if isinstance(event, MessageAdded) and event.role == "assistant"]
    assert turns == [1, 2, 3]


@pytest.mark.parametrize(("turn", "words"), [("7", "There is no turn 7"), ("-1", "greater than or equal to 0")])
def test_a_turn_that_is_not_there_is_refused_and_leaves_nothing(
    killed: Killed, forked: Path, turn: str, words: str
) -> None:
    done = killed.call("fork", killed.run, "--run-dir", "new", "--", turn)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (killed.folder / "new").exists()


def test_another_limit_lets_it_go_on_in_a_workspace_that_is_built_again(killed: Killed, forked: Path) -> None:
    done = killed.call("resume", killed.run, "--max-turns", "9")
    assert done.returncode == 1, done.stderr
    document = killed.document(killed.run)
    assert document["stop"] == {"reason": "gave_up", "detail": "seen enough"}
    assert (killed.run / "workspace/kernels/begun").read_text() == "begun\n"
    assert travel.turns(killed.run) == (0, 1, 2, 3, 4)
    assert any(isinstance(event, SnapshotTaken) for event in read(killed.log))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda run: (run / "operator/model.py").write_text(GOOD + "#"), "is not the operator of this run"),
        (lambda run: shutil.rmtree(run / "operator"), "is not the operator of this run"),
        (lambda run: (run / "snapshots/turns.jsonl").write_text("{}\n{}\n"), "damaged in line 1"),
        (lambda run: (run / "trajectory.jsonl").write_text("{}\n{}\n"), "damaged in line 1"),
        (lambda run: (run / "trajectory.jsonl").unlink(), "is empty, but the run had begun"),
        (lambda run: (run / "run.json").unlink(), "is not a run's folder"),
    ],
)
def test_a_damaged_run_is_refused_in_one_sentence(killed: Killed, forked: Path, spoil: Any, words: str) -> None:
    spoiled = killed.folder / "spoiled"
    shutil.rmtree(spoiled, ignore_errors=True)
    shutil.copytree(forked, spoiled)
    spoil(spoiled)
    done = killed.call("resume", spoiled, "--max-turns", "50")
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (spoiled / ".reserve").exists()
