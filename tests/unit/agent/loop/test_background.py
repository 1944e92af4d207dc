"""What a conversation makes the model take for running in the background."""

from pathlib import Path

import pytest
from tests.unit.agent.fakes import FakeSandbox

from cuda_agent.llm.model import Message, ToolCall
from cuda_agent.loop.background import running
from cuda_agent.prompting import Prompts
from cuda_agent.resources import prompts_dir
from cuda_agent.runs.opening import background_gone


def asked(command: str, identity: str = "c") -> Message:
    call = ToolCall(identity, "Bash", {"command": command, "run_in_background": True})
    return Message("assistant", "", (call,))


def answered(text: str, identity: str = "c") -> Message:
    return Message("tool", text, tool_call_id=identity)


def begun(number: int, log: str) -> str:
    return f"[job {number} runs in the background; its output goes to {log}. `jobs` lists such jobs, `kill 7` ends"


STARTED = [asked("make\n  all"), answered(begun(1, "/s/jobs/1.log"))]
PROMPTS = Prompts(prompts_dir())


@pytest.mark.parametrize(
    ("after", "left"),
    [
        ([], ["make\n  all"]),
        ([answered("[background job 1 ended with exit code 0; its output is in /s/jobs/1.log]")], []),
        ([answered("[background job 1 ended with exit code 0; its output is in /t/jobs/1.log]")], ["make\n  all"]),
        ([Message("user", "go on with job 1")], ["make\n  all"]),
        ([asked("sleep 9", "d"), answered(begun(2, "'/a b/2.log'"), "d")], ["make\n  all", "sleep 9"]),
        ([answered("Interrupted, state unknown")], ["make\n  all"]),
    ],
    ids=["runs", "has ended", "another ended", "a person speaks of it", "two run", "a call nobody answered"],
)
def test_what_was_begun_runs_until_its_end_is_told(after: list[Message], left: list[str]) -> None:
    assert [one.command for one in running([*STARTED, *after])] == left


@pytest.mark.parametrize("kept", [True, False])
def test_what_was_told_to_be_gone_is_not_told_again_but_what_is_begun_anew_counts(kept: bool, tmp_path: Path) -> None:
    sandbox, log = FakeSandbox(tmp_path), tmp_path / "a log"
    if kept:
        log.touch()
    started = [asked("make\n  all"), answered(begun(1, f"'{log}'"))]
    told = Message("user", background_gone(PROMPTS, running(started), sandbox))
    said = f"its output until then is in {log}" if kept else f"its output ({log}) is gone"
    assert told.content.endswith(f"\n- job 1: `make all`, {said}")
    assert running([*started, told]) == ()
    again = [*started, told, asked("make", "e"), answered(begun(1, "/s/jobs/1.log"), "e")]
    assert [one.command for one in running(again)] == ["make"]
