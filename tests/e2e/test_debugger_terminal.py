"""The debugger as a person uses it: at a terminal of 80 columns, on a real run."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.program import ROOT, command, environment
from tests.e2e.terminal import COLUMNS, PROMPT, Terminal
from tests.e2e.test_scripted_run import BINDING, KERNEL, MODEL_NEW

EXAMPLE = ROOT / "examples/diag_matmul"
SIZES = re.compile(r"\b\d{4}\b")


def bash(line: str) -> dict[str, object]:
    return {"name": "Bash", "arguments": {"command": line, "timeout": 300_000, "description": "x"}}


def write(path: str, text: str) -> dict[str, object]:
    edits = [{"old_string": "", "new_string": text.replace("NAME", "rows")}]
    return {"name": "MultiEdit", "arguments": {"file_path": path, "edits": edits}}


def mend(new: str) -> dict[str, object]:
    edits = [{"old_string": "facter *", "new_string": new}]
    return {"name": "MultiEdit", "arguments": {"file_path": "kernels/rows.cpp", "edits": edits}}


TODOS = [{"content": "Scale rows", "status": "in_progress"}]
SCRIPT = [
    {"text": "First a plan.", "calls": [{"name": "TodoWrite", "arguments": {"todos": TODOS}}]},
    {"text": "What is there?", "calls": [bash("ls; printf '\\033[41mred\\033[0m\\007\\n'")]},
    {
        "text": "The kernel.",
        "calls": [
            write("kernels/rows.cpp", KERNEL),
            write("kernels/rows_binding.cpp", BINDING),
            write("model_new.py", MODEL_NEW),
        ],
    },
    {"text": "It must build.", "calls": [bash("bash utils/compile.sh")]},
    {"text": "A name is wrong \x1b[2J.", "calls": [mend("fakter *")]},
    {"text": "Again.", "calls": [bash("bash utils/compile.sh")]},
    {"text": "Is it right, and fast?", "calls": [bash("python3 -m utils.verification && python3 -m utils.profiling")]},
]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "script.json").write_text(json.dumps(SCRIPT))
    # The example at a quarter of its size: what is shown is the same in less time, and the win is as clear.
    source = (EXAMPLE / "model.py").read_text(encoding="utf-8")
    (tmp_path / "model.py").write_text(SIZES.sub(lambda found: str(int(found[0]) // 2), source))
    return tmp_path


@pytest.fixture
def terminal(place: Path, sandbox_python: str) -> Iterator[Terminal]:
    settings = ("--model", "scripted:script.json", "--run-dir", "run", "--target", "cpu", "--python", sandbox_python)
    line = command("debug", "model.py", *settings)
    env = environment(HOME=str(place), NO_COLOR="1")
    with Terminal(line, cwd=place, env=env) as made:
        made.wait_for("(cuda-agent)")
        yield made


def test_a_kernel_is_debugged_at_a_terminal(terminal: Terminal, place: Path) -> None:
    assert "the model is asked next" in terminal.text
    assert "Breakpoint 1 at failed-compile" in terminal.command("b failed\t")
    assert "a call of MultiEdit with 'nowhere'" in terminal.command("break MultiEdit nowhere")
    stopped = terminal.command("c")
    assert "* Stopped at: breakpoint 1: failed-compile" in stopped
    assert "> turn 4 is over; the model is asked next" in stopped
    # Inspect.
    assert "was not declared" in terminal.command("p message 11")
    assert re.search(r"turn 4 +Bash +bash utils/compile.sh", terminal.command("list"))
    assert "[>] Scale rows" in terminal.command("p todos")
    assert "No verdict was taken yet" in terminal.command("p ledger")
    assert "facter * x" in terminal.command("sh cat kernels/rows.cpp")
    assert "There is no command 'pritn'" in terminal.command("pritn")
    # Ctrl-C clears the line; the next one is another command.
    terminal.type("quit")
    terminal.type("\x03")
    terminal.wait_for(f"{PROMPT} quit\n{PROMPT}")
    assert "turns" in terminal.command("p budget")
    # Edit the pending call and go on to the verdict.
    pending = terminal.command("s")
    assert "> turn 5, call 1 of 1: MultiEdit" in pending
    assert "edits.0.new_string: fakter *" in pending
    assert "edits.0.new_string: factor *" in terminal.command("edit edits.0.new_string=factor *")
    judged = terminal.command("n")
    assert "final verdict: win" in judged
    assert "* The run is over: target_reached." in judged
    assert "+    for (int64_t column = 0; column < columns; ++column)" in terminal.command("diff 3 7")
    assert "faster than torch.compile" in terminal.command("show")
    # Five turns back: the files are as they were.
    assert "> turn 2 is over; the model is asked next" in terminal.command("back 5")
    assert "No such file" in terminal.command("sh ls model_new.py")
    # Another model goes on from there, in a run of its own.
    terminal.type("fork 2 --model builtin\r")
    terminal.wait_for("Forked from turn 2 into")
    terminal.wait_prompt()
    terminal.type("c\r")
    terminal.wait_for("* The run is over: target_reached.")
    terminal.type("c\r")
    assert terminal.leave() == 0
    assert f"Run:      {place / 'run-fork-2'}" in terminal.text.replace("\n", "")
    check_what_was_written(place)
    # Nothing that the model or a command said was obeyed: no colour, no bell, no cleared screen of theirs.
    assert b"\x1b[41m" not in terminal.raw
    assert b"\x1b[2J" not in terminal.raw
    assert b"\x07" not in terminal.raw
    assert all(len(line) <= COLUMNS for line in terminal.text.split("\n"))
    assert oct(os.stat(place / ".local/state/cuda-agent/debug_history").st_mode & 0o777) == "0o600"


def check_what_was_written(place: Path) -> None:
    told = [json.loads(line) for line in (place / "run/trajectory.jsonl").read_text().splitlines()]
    assert [event["by"] for event in told if event["type"] == "call_changed"] == ["person"]
    assert [event["turn"] for event in told if event["type"] == "rewound"] == [2]
    parent = json.loads((place / "run/run.json").read_text())
    assert parent["status"] == "interrupted"
    forked = next(event for event in told if event["type"] == "forked")
    child = json.loads((place / "run-fork-2/run.json").read_text())
    assert Path(forked["run"]) == place / "run-fork-2"
    assert child["parent"] == {"run": str(place / "run"), "turn": 2}
    assert (child["status"], child["result"]["status"], child["result"]["final"]) == ("done", "win", True)
