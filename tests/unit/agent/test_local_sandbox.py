import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from cuda_agent.sandbox.command import Command
from cuda_agent.sandbox.local import LocalSandbox
from cuda_agent.sandbox.process import Supervised
from cuda_agent_tools.sandbox import SandboxError, SandboxLost

PYTHON = Path(sys.executable)


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_directories_are_made_and_stay(tmp_path: Path) -> None:
    with LocalSandbox(workspace=tmp_path / "a/w", state_dir=tmp_path / "b/s", python=PYTHON) as sandbox:
        sandbox.write("kept", b"1")
    sandbox.stop()
    assert (tmp_path / "a/w/kept").read_bytes() == b"1"
    assert (tmp_path / "b/s/home").is_dir()
    assert not (tmp_path / "b/s/tmp").exists()
    with sandbox:
        assert sandbox.read("kept") == b"1"
        assert sandbox.exec(["sh", "-c", 'test -d "$TMPDIR"']).exit_code == 0


def test_python3_inside_is_the_chosen_one(tmp_path: Path) -> None:
    with LocalSandbox(workspace=tmp_path / "w", state_dir=tmp_path / "s", python=PYTHON) as sandbox:
        said = sandbox.exec(["python3", "-c", "import sys; print(sys.version, sys.prefix)"]).stdout.decode()
    assert said == f"{sys.version} {sys.prefix}\n"


def test_added_variables_are_there(tmp_path: Path) -> None:
    with LocalSandbox(
        workspace=tmp_path / "w", state_dir=tmp_path / "s", python=PYTHON, extra_env={"SESSION": "x"}
    ) as sandbox:
        assert sandbox.exec(["sh", "-c", "echo $SESSION"]).stdout == b"x\n"


def test_a_workspace_behind_a_link_is_known_by_its_real_path(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with LocalSandbox(workspace=tmp_path / "link/w", state_dir=tmp_path / "s", python=PYTHON) as sandbox:
        assert sandbox.exec(["pwd"]).stdout.decode().strip() == sandbox.workspace == str(tmp_path / "real/w")


def test_a_sandbox_that_was_not_started_runs_nothing(tmp_path: Path) -> None:
    sandbox = LocalSandbox(workspace=tmp_path / "w", state_dir=tmp_path / "s", python=PYTHON)
    with pytest.raises(SandboxError, match="start it before running commands"):
        sandbox.exec(["true"])


def test_a_python_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="there is no Python at '/nowhere/python3'; name another with --python"):
        LocalSandbox(workspace=tmp_path / "w", state_dir=tmp_path / "s", python=Path("/nowhere/python3")).start()


def test_directories_that_cannot_be_made_are_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SandboxError, match="directories cannot be made"):
        LocalSandbox(workspace=tmp_path / "file/w", state_dir=tmp_path / "s", python=PYTHON).start()


def test_a_command_abandoned_before_it_began_ends_at_once() -> None:
    supervised = Supervised(Command(("sleep", "300"), "/", {"PATH": os.environ["PATH"]}, b"", 60.0, 1000))
    supervised.abandon()
    assert supervised.run(None).exit_code == 137


def test_a_command_that_stops_its_supervisor_is_killed_in_the_end() -> None:
    script = "setsid sleep 300 & echo $! $PPID; kill -STOP $PPID; sleep 301"
    command = Command(("bash", "-c", script), "/", {"PATH": os.environ["PATH"]}, b"", 0.3, 1000)
    result = Supervised(command, overrun_s=0.3).run(None)
    assert result.timed_out
    assert [pid for pid in map(int, result.stdout.split()) if runs(pid)] == []


def test_an_interrupt_in_the_middle_of_a_command_leaves_nothing(tmp_path: Path) -> None:
    with LocalSandbox(workspace=tmp_path / "w", state_dir=tmp_path / "s", python=PYTHON) as sandbox:
        pids: list[int] = []

        def seen(data: bytes) -> None:
            pids.extend(map(int, data.split()))
            threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()

        with pytest.raises(KeyboardInterrupt):
            sandbox.exec(["bash", "-c", "setsid sleep 300 & echo $! $$; sleep 301"], on_output=seen)
        limit = time.monotonic() + 30
        while any(map(runs, pids)) and time.monotonic() < limit:
            time.sleep(0.02)
        assert not any(map(runs, pids))
        assert len(pids) == 2


@pytest.mark.parametrize("what", ["w", "s"])
def test_a_sandbox_without_its_directories_is_lost(tmp_path: Path, what: str) -> None:
    with LocalSandbox(workspace=tmp_path / "w", state_dir=tmp_path / "s", python=PYTHON) as sandbox:
        shutil.rmtree(tmp_path / what)
        with pytest.raises(SandboxLost, match="gone"):
            sandbox.exec(["true"], cwd="sub")


def test_a_command_that_deletes_the_workspace_loses_the_sandbox(tmp_path: Path) -> None:
    with (
        LocalSandbox(workspace=tmp_path / "w", state_dir=tmp_path / "s", python=PYTHON) as sandbox,
        pytest.raises(SandboxLost),
    ):
        sandbox.exec(["bash", "-c", 'cd /; rm -rf "$1"', "bash", sandbox.workspace])


FLOODED = """
import os, signal, threading, time
from cuda_agent.sandbox.command import Command
from cuda_agent.sandbox.process import Supervised
signal.signal(signal.SIGINT, lambda number, frame: None)
def flood():
    while True:
        os.killpg(0, signal.SIGINT)
        time.sleep(0.0003)
threading.Thread(target=flood, daemon=True).start()
command = Command(("true",), "/", {"PATH": os.environ["PATH"]}, b"", 60.0, 1000)
print({Supervised(command).run(None).exit_code for _ in range(40)})
"""


def test_what_a_terminal_sends_while_a_command_is_started_does_not_end_it() -> None:
    # Whoever is asked at Ctrl-C and goes on must find the command unharmed.
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", FLOODED],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, start_new_session=True, timeout=120,
    )  # fmt: skip
    assert done.stdout == "{0}\n", done.stderr


INTERRUPTED = """
import os, signal, threading, time
from pathlib import Path
from cuda_agent.runs.signals import Signals
from cuda_agent.sandbox.command import Command
from cuda_agent.sandbox.process import Supervised
def children():
    stats = [Path(f"/proc/{pid}/stat") for pid in os.listdir("/proc") if pid.isdigit()]
    found = [stat.read_text().rpartition(")")[2].split()[1] for stat in stats if stat.exists()]
    return found.count(str(os.getpid()))
command = Command(("sleep", "300"), "/", {"PATH": os.environ["PATH"]}, b"", 60.0, 1000)
interrupted, due = 0, threading.Event()
def interrupt():
    for delay in range(40):
        due.wait()
        due.clear()
        time.sleep(delay / 4000)
        os.kill(os.getpid(), signal.SIGINT)  # from a thread: the mask of the main one does not stop it
threading.Thread(target=interrupt, daemon=True).start()
for _ in range(40):
    with Signals():
        try:
            due.set()
            Supervised(command).run(None)
        except KeyboardInterrupt:
            interrupted += 1
print(interrupted, children())
"""


def test_an_interrupt_at_any_moment_of_a_start_leaves_no_process() -> None:
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error::ResourceWarning", "-c", INTERRUPTED],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, start_new_session=True, timeout=120,
    )  # fmt: skip
    assert done.stdout == "40 0\n", done.stderr
