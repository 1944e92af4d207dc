"""How a run ends when it does not end well: interrupts, a full disk, an operator that only running can refuse."""

import json
import os
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.e2e.program import GOOD, command, cuda_agent, environment

SLEEP = "sleep 301.{}"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "good.py").write_text(GOOD)
    return tmp_path


def running(words: str) -> list[int]:
    """Processes with these words in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
            except OSError:
                continue
            if words.encode() in line and int(entry.name) != os.getpid():
                found.append(int(entry.name))
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_run_leaves_no_process_and_says_so(
    place: Path, sandbox_python: str, number: signal.Signals
) -> None:
    marked = SLEEP.format(100000 + os.getpid() * 10 + number)
    script = [
        {"calls": [{"name": "Bash", "arguments": {"command": f"setsid {marked} & {marked}", "description": "x"}}]}
    ]
    (place / "script.json").write_text(json.dumps(script))
    arguments = (
        "optimize",
        "good.py",
        "--model",
        "scripted:script.json",
        "--run-dir",
        "run",
        "--python",
        sandbox_python,
    )
    program = subprocess.Popen(
        command(*arguments, "--target", "cpu", "--json"),
        cwd=place,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # whoever runs the tests may ignore SIGHUP (nohup)
    )
    with program:
        while len(running(marked)) < 2:
            assert program.poll() is None, program.communicate()
            time.sleep(0.1)
        program.send_signal(number)
        printed, _ = program.communicate(timeout=120)
    assert program.returncode == 130
    assert running(marked) == []
    document = json.loads(printed)
    assert (document["status"], document["stop"]["reason"]) == ("interrupted", "interrupted")
    assert json.loads((place / "run/run.json").read_text())["status"] == "interrupted"


def test_a_full_disk_is_one_sentence_and_everything_written_is_whole(place: Path, sandbox_python: str) -> None:
    # A limit on the size of a file stops the trajectory as a full disk does.
    limit = 8_000_000
    (place / "script.json").write_text(json.dumps([{"text": "small"}, {"text": "x" * limit}]))
    done = subprocess.run(
        command("optimize", "good.py", "--model", "scripted:script.json", "--run-dir", "run", "--target", "cpu",
                "--python", sandbox_python),
        cwd=place, env=environment(), capture_output=True, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )  # fmt: skip
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert "disk is full" in done.stderr
    document = json.loads((place / "run/run.json").read_text())
    assert (document["status"], document["exit_code"]) == ("failed", 3)
    lines = (place / "run/trajectory.jsonl").read_bytes()
    assert lines.endswith(b"\n")
    assert [json.loads(line)["seq"] for line in lines.splitlines()] == list(range(lines.count(b"\n")))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("from absent_module import f\n" + GOOD, "absent_module"),
        (GOOD.replace("x.relu()", "x + torch.rand_like(x)"), "random"),
        (GOOD.replace("x.relu()", "'text'"), "tensor"),
    ],
)
def test_what_only_running_can_refuse_is_one_sentence_and_leaves_no_run(
    place: Path, sandbox_python: str, body: str, words: str
) -> None:
    (place / "bad.py").write_text(body)
    (place / "script.json").write_text("[]")  # a model that must not be asked
    arguments = ("optimize", "bad.py", "--model", "scripted:script.json", "--run-dir", "run", "--target", "cpu")
    done = cuda_agent(*arguments, "--python", sandbox_python, cwd=place)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "'bad.py' cannot be used" in done.stderr
    assert words in done.stderr
    assert not (place / "run").exists()


def test_a_sibling_module_travels_into_the_sandbox(place: Path, sandbox_python: str) -> None:
    (place / "helper.py").write_text("def f(x):\n    return x.relu()\n")
    (place / "op.py").write_text("from helper import f\n" + GOOD.replace("x.relu()", "f(x)"))
    (place / "script.json").write_text('[{"gave_up": "seen enough"}]')
    arguments = (
        "optimize",
        "op.py",
        "--model",
        "scripted:script.json",
        "--run-dir",
        "run",
        "--target",
        "cpu",
        "--json",
    )
    done = cuda_agent(*arguments, "--python", sandbox_python, cwd=place)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["stop"] == {"reason": "gave_up", "detail": "seen enough"}
