"""A run that is killed, and killed again while another process goes on with it, loses nothing that was printed."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.program import ROOT, SOURCES, environment

from cuda_agent.history import read_history
from cuda_agent.llm.model import Message
from cuda_agent.run_dir import RunDir
from cuda_agent.runs.resume import recalled
from cuda_agent.runs.scratch import PREFIX, remove_orphans
from cuda_agent.trajectory import MessageAdded, Observation, SandboxStarted

PROGRAM = Path(__file__).with_name("killed_at.py")
POINTS = ["resumed", "sandbox", "analyze", "observation", "message", "told", "asked"]


def process(run: Path, point: str) -> int:
    """Let a process work on the run; return its exit code."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(run), point],
        capture_output=True,
        text=True,
        env=environment(PYTHONPATH=os.pathsep.join([*SOURCES, str(ROOT)]), TMPDIR=str(run.parent)),
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


def known(run: Path) -> tuple[Message, ...]:
    """The conversation as it counts."""
    found = RunDir(run)
    return recalled(found, read_history(found.trajectory)).memory().messages


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that was killed in the middle of its second turn; what is in the temporary directory is removed."""
    folder = tmp_path / "ein lauf"
    assert process(folder, "none") == -signal.SIGKILL
    assert remove_orphans(tmp_path, older_than_s=0) == 1  # as the start of any other run does
    return folder


@pytest.mark.parametrize("points", [[], *([one] for one in POINTS), ["message", "told", "sandbox"]], ids="-".join)
def test_what_was_printed_is_read_and_what_is_said_once_is_said_once(run: Path, points: list[str]) -> None:
    for point in points:
        assert process(run, point) == -signal.SIGKILL
        remove_orphans(run.parent, older_than_s=0)
    assert process(run, "none") == 0
    [told] = [one.content for one in known(run) if one.content.startswith("What ran in the background")]
    log = re.search(r"\n- job 1: `echo half done; sleep 304.5`, its output until then is in (.*)$", told)
    assert log is not None
    assert Path(log[1]).read_text() == "half done\n"
    answers = {one.tool_call_id: one.content for one in known(run) if one.role == "tool"}
    assert answers["b4"].startswith("Interrupted, state unknown")
    # The shell's variable, a file, the log, no job, the end of a long output, where it stands: b5 sees all that.
    assert answers["b5"] == f"MARK is 7\ntwo\nhalf done\n9000\n{run / 'workspace'}"
    assert not list(run.parent.glob(f"{PREFIX}*"))


def test_a_copy_of_a_run_works_in_its_own_workspace(run: Path) -> None:
    other = shutil.copytree(run, run.with_name("a copy"), symlinks=True)
    assert process(other, "none") == 0
    [answer] = [one.content for one in known(other) if one.tool_call_id == "b5"]
    assert answer.splitlines()[0] == "MARK is 7"
    assert answer.splitlines()[-1] == str(other / "workspace")


@pytest.mark.parametrize("points", [["sandbox"], ["message"], ["told"]], ids="-".join)
def test_that_the_workspace_was_rebuilt_is_said_whoever_rebuilt_it(run: Path, points: list[str]) -> None:
    shutil.rmtree(run / "workspace")
    for point in points:
        assert process(run, point) == -signal.SIGKILL
    assert process(run, "none") == 0
    rebuilt = [one.content for one in known(run) if "The workspace was rebuilt" in one.content]
    assert rebuilt
    assert set(rebuilt) == {
        "The run was interrupted and goes on. The workspace was rebuilt as it was at the end of turn 1: what calls did"
        " after that is gone."
    }
    assert not (run / ".restoring").exists()


def test_every_reply_was_paid_for_once(run: Path) -> None:
    for point in ("told", "asked"):
        assert process(run, point) == -signal.SIGKILL
    assert process(run, "none") == 0
    events = read_history(run / "trajectory.jsonl").events
    replies = [one.turn for one in events if isinstance(one, MessageAdded) and one.role == "assistant"]
    assert replies == [1, 2, 3, 4]
    assert [one.id for one in events if isinstance(one, Observation)] == ["b1", "b2", "b3", "b4", "b5"]
    assert {one.state_dir for one in events if isinstance(one, SandboxStarted)} == {str(run / "state")}
