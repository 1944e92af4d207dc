"""The debugger without a terminal, runs that are opened again, and what Ctrl-C offers in a run by itself."""

import json
import signal
import subprocess
from pathlib import Path

import pytest
from tests.e2e.program import GOOD, command, environment
from tests.e2e.terminal import Terminal


def bash(line: str) -> dict[str, object]:
    return {"calls": [{"name": "Bash", "arguments": {"command": line, "description": "x"}}]}


def write(text: str) -> dict[str, object]:
    edits = [{"old_string": "", "new_string": text}]
    return {"calls": [{"name": "MultiEdit", "arguments": {"file_path": "notes.txt", "edits": edits}}]}


SCRIPT = [bash("printf '\\033[31mred\\033[0m\\n'; cd kernels"), write("first"), bash("pwd; echo more >> ../notes.txt")]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("piped")
    (folder / "good.py").write_text(GOOD)
    (folder / "script.json").write_text(json.dumps(SCRIPT))
    (folder / "slow.json").write_text(json.dumps([bash("sleep 4; echo slept"), bash("sleep 200"), bash("echo third")]))
    return folder


def debug(place: Path, *arguments: str, lines: str, python: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command("debug", *arguments, "--python", python),
        cwd=place,
        env=environment(HOME=str(place)),
        input=lines,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def piped(place: Path, sandbox_python: str) -> subprocess.CompletedProcess[str]:
    lines = (
        "b MultiEdit\nc\np\nedit edits.0.new_string=by hand\ns\np\nsh cat notes.txt\nbogus\nb \xff\nsay \x1b[31mred\n"
    )
    arguments = ("good.py", "--model", "scripted:script.json", "--run-dir", "run", "--target", "cpu")
    return debug(place, *arguments, lines=lines, python=sandbox_python)


def test_commands_from_a_pipe_read_like_a_session(piped: subprocess.CompletedProcess[str]) -> None:
    said = piped.stdout
    assert (piped.returncode, piped.stderr) == (130, "")
    assert "(cuda-agent) b MultiEdit\nBreakpoint 1 at a call of MultiEdit\n(cuda-agent) c\n" in said
    assert "* Stopped at: breakpoint 1: a call of MultiEdit\n> turn 2, call 1 of 1: MultiEdit\n" in said
    assert "(cuda-agent) sh cat notes.txt\nby hand\n" in said
    assert "*** There is no command 'bogus'" in said
    assert "The run is kept in" in said
    assert said.rstrip().splitlines()[-1].startswith("Run:")
    assert [char for char in said if not char.isprintable() and char != "\n"] == []


def test_a_run_is_opened_again_where_it_stands_and_at_a_turn(
    piped: subprocess.CompletedProcess[str], place: Path, sandbox_python: str
) -> None:
    again = debug(place, "run", lines="l\nsh cat notes.txt\n", python=sandbox_python)
    assert "the run goes on after turn" in again.stdout
    assert "by hand" in again.stdout
    earlier = debug(place, "run", "--at", "1", lines="sh cat notes.txt\ns\ns\n", python=sandbox_python)
    assert "> turn 1 is over; the model is asked next" in earlier.stdout
    assert "No such file" in earlier.stdout
    assert "edits.0.new_string: first" in earlier.stdout  # the script went back with the run
    assert json.loads((place / "run/run.json").read_text())["status"] == "interrupted"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "--at", "99"), "no turn 99"),
        (("good.py", "--at", "1"), "--at needs the folder of a run"),
        (("run", "--precision", "half"), "'precision' of a run cannot be changed"),
        (("nowhere",), "nowhere"),
        (("run", "--model", "nobody"), "nobody"),
    ],
)
def test_what_cannot_be_opened_is_one_sentence(
    piped: subprocess.CompletedProcess[str], place: Path, sandbox_python: str, arguments: tuple[str, ...], said: str
) -> None:
    before = (place / "run/trajectory.jsonl").read_bytes()
    refused = debug(place, *arguments, lines="", python=sandbox_python)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert said in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert (place / "run/trajectory.jsonl").read_bytes() == before


def test_json_is_alone_on_stdout(place: Path, sandbox_python: str) -> None:
    arguments = ("good.py", "--model", "scripted:script.json", "--run-dir", "json", "--target", "cpu", "--json")
    done = debug(place, *arguments, lines="s\n", python=sandbox_python)
    assert json.loads(done.stdout)["status"] == "interrupted"
    assert "(cuda-agent) s" in done.stderr


def test_ctrl_c_in_optimize_at_a_terminal_offers_to_go_on_to_debug_and_to_stop(
    place: Path, sandbox_python: str
) -> None:
    question = "[c]ontinue, [d]ebug or [s]top?"
    settings = ("--model", "scripted:slow.json", "--run-dir", "offer", "--target", "cpu", "--python", sandbox_python)
    with Terminal(command("optimize", "good.py", *settings), cwd=place, env=environment(HOME=str(place))) as terminal:
        terminal.wait_for("[turn 1]   Bash")
        terminal.type("\x03")
        terminal.wait_for_written(question, 1)
        terminal.type("x\r")
        terminal.wait_for_written(question, 2)
        terminal.type("c\r")
        terminal.wait_for("slept")  # the command that was running was not hurt
        terminal.wait_for("[turn 2]   Bash")
        terminal.type("\x03")
        terminal.wait_for_written(question, 3)
        terminal.type("d\r")
        terminal.wait_for("> turn 2 is over; the model is asked next")
        assert "> turn 3, call 1 of 1: Bash" in terminal.command("s")
        terminal.type("\x04")
        assert terminal.leave() == 130
        assert "The run is kept in" in terminal.text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_at_the_prompt_ends_the_session_in_order(
    place: Path, sandbox_python: str, number: signal.Signals
) -> None:
    name = f"signal{int(number)}"
    settings = ("--model", "scripted:script.json", "--run-dir", name, "--target", "cpu", "--python", sandbox_python)
    with Terminal(command("debug", "good.py", *settings), cwd=place, env=environment(HOME=str(place))) as terminal:
        terminal.wait_prompt()
        terminal.type("half a li")
        terminal.wait_for("half a li")
        terminal.program.send_signal(number)
        assert terminal.leave() == 130
        assert "Traceback" not in terminal.text
        assert "Warning" not in terminal.text
    assert json.loads((place / name / "run.json").read_text())["status"] == "interrupted"
