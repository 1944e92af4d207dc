"""A run that goes on elsewhere works there, and not where it began."""

import subprocess
from pathlib import Path

import pytest

from cuda_agent.llm.model import Message, ToolCall
from cuda_agent.loop.memory import Counts, Memory, Verdicts
from cuda_agent.runs.beginning import relocated, shell_state_moved

OLD, NEW = "/runs/a b/workspace", "/runs/a b-fork-1/workspace"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"in {OLD}.", f"in {NEW}."),
        (f"{OLD}/kernels/k.cpp:3", f"{NEW}/kernels/k.cpp:3"),
        (f"{OLD}2 and {OLD}-old and {OLD}", f"{OLD}2 and {OLD}-old and {NEW}"),
        ("nothing of it", "nothing of it"),
    ],
)
def test_what_was_said_of_the_old_workspace_is_said_of_the_new(text: str, expected: str) -> None:
    calls = (ToolCall("1", "Bash", {"command": text, "deep": [{"a": text}, 1]}, text),)
    memory = Memory(
        1, (Message("assistant", text, calls, provider={"signature": text}),), (), Counts(), Verdicts(3), ""
    )
    message = relocated(memory, (OLD, NEW), NEW).messages[0]
    assert message.content == expected
    assert message.tool_calls == (ToolCall("1", "Bash", {"command": expected, "deep": [{"a": expected}, 1]}, expected),)
    assert message.provider == {"signature": text}  # what a provider signed is given back as it was


@pytest.mark.parametrize("name", ["plain", "with space", "größe", "quo'te", "dollar$x", 'double"quote', "tab\there"])
def test_a_shell_never_starts_in_the_workspace_it_left(tmp_path: Path, name: str) -> None:
    old, new = tmp_path / name / "workspace", tmp_path / f"{name}-fork" / "workspace"
    for folder in (old, new):
        (folder / "kernels").mkdir(parents=True)
    save = 'cd -- "$1/kernels"; printf "cd -- %q || gone=1\\n" "$(pwd)"; A=$1/x; declare -p A'
    env = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    saved = subprocess.run(["bash", "-c", save, "bash", str(old)], capture_output=True, check=True, env=env).stdout
    (tmp_path / "state").write_bytes(shell_state_moved(saved, (str(old),), str(new)))
    show = '. "$1"; printf "%s|%s" "$PWD" "$A"'
    done = subprocess.run(
        ["bash", "-c", show, "bash", str(tmp_path / "state")], capture_output=True, text=True, cwd=new, env=env
    )
    where, variable = done.stdout.split("|")
    assert (where, variable) in [(f"{new}/kernels", f"{new}/x"), (str(new), "")]
    if name in ("plain", "with space", "größe"):
        assert where == f"{new}/kernels"
