"""Nothing that a command started outlives it, its deadline, or the host."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cuda_agent_tools.sandbox import Sandbox, SandboxError, SandboxLost

if TYPE_CHECKING:
    from tests.contract.conftest import Processes

HOST = """
import sys
from pathlib import Path
from tests.contract.conftest import started
with started(sys.argv[3], Path(sys.argv[1])) as sandbox:
    sandbox.exec(["bash", "-c", "setsid sleep 300 & echo started; sleep 301"], env={"TEST_MARK": sys.argv[2]},
                 on_output=lambda data: (sys.stdout.buffer.write(data), sys.stdout.flush()))
"""


def wait_for(processes: "Processes", commands: set[str]) -> set[str]:
    """Return those of the commands that run, after waiting for all; the limit only ends a failing test.

    What one reading sees another may miss: a process that becomes another program has no environment for a moment.
    """
    limit = time.monotonic() + 30
    while (seen := commands & set(processes.left())) != commands and time.monotonic() < limit:
        time.sleep(0.02)
    return seen


def wait_until_none_is_left(processes: "Processes") -> list[str]:
    """Return what is left in the end, after waiting for it to go; the limit only ends a failing test."""
    limit = time.monotonic() + 30
    while (left := processes.left()) and time.monotonic() < limit:
        time.sleep(0.02)
    return left


@pytest.mark.parametrize(
    "script",
    [
        "sleep 300 & sleep 301",
        "setsid sleep 300 & sleep 301",
        "setsid bash -c 'setsid sleep 300 & sleep 301' & sleep 302",
        "nohup bash -c 'trap \"\" TERM HUP INT; sleep 300; sleep 301' & trap '' TERM; sleep 302; sleep 303",
        "(sleep 300 &) ; exec sleep 301",
        "python3 -c 'while 1: pass'",
        "python3 -c 'import os, time; os.fork() or os.setsid(); os.fork(); time.sleep(300)'",
    ],
)
def test_a_deadline_kills_the_whole_tree(sandbox: Sandbox, processes: "Processes", script: str) -> None:
    result = sandbox.exec(["bash", "-c", f"echo before; {script}"], timeout_s=1.5, env=processes.env)
    assert result.timed_out
    assert result.exit_code is None
    assert result.stdout.startswith(b"before\n")
    assert processes.left() == []


def test_a_tree_that_keeps_forking_is_killed(sandbox: Sandbox, processes: "Processes") -> None:
    script = "f() { for i in 1 2 3; do sleep 0.01; done; f & exit; }; for i in 1 2 3 4 5; do f & done; wait; sleep 300"
    result = sandbox.exec(["bash", "-c", script], timeout_s=1.5, env=processes.env)
    assert result.timed_out
    assert processes.left() == []


def test_background_children_neither_hold_the_call_nor_outlive_it(sandbox: Sandbox, processes: "Processes") -> None:
    script = "sleep 300 & setsid sleep 301 & echo done"
    result = sandbox.exec(["bash", "-c", script], timeout_s=60, env=processes.env)
    assert (result.exit_code, result.stdout, result.timed_out) == (0, b"done\n", False)
    assert processes.left() == []


def test_silence_is_no_reason_to_kill(sandbox: Sandbox) -> None:
    result = sandbox.exec(["bash", "-c", "sleep 3; echo ok"], timeout_s=60)
    assert (result.exit_code, result.stdout) == (0, b"ok\n")


def test_no_zombie_is_left(sandbox: Sandbox) -> None:
    for _ in range(5):
        sandbox.exec(["bash", "-c", "for i in 1 2 3 4 5; do (true &); done; setsid sleep 300 &"])
    stats = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            stats.append(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2])
        except OSError:
            continue
    assert [state for state, parent in stats if int(parent) == os.getpid() and state == "Z"] == []


def test_a_command_that_kills_its_parent_leaves_nothing(sandbox: Sandbox, processes: "Processes") -> None:
    # Where the parent is another user's, it cannot be killed, and the command goes on by itself.
    script = "setsid sleep 300 & kill -9 $PPID || exit 9; sleep 301"
    result = sandbox.exec(["bash", "-c", script], timeout_s=60, env=processes.env)
    assert not result.timed_out
    assert result.exit_code in (137, 9)
    assert processes.left() == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_host_that_dies_takes_its_commands_along(
    kind: str, tmp_path: Path, processes: "Processes", number: int
) -> None:
    argv = [sys.executable, "-c", HOST, str(tmp_path), processes.mark, kind]
    path = os.pathsep.join(sys.path)
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": path}
    ) as host:
        assert host.stdout is not None
        assert host.stdout.readline() == b"started\n"
        seen = wait_for(processes, {"sleep 300 ", "sleep 301 "})  # both become what they are after the word
        host.send_signal(number)
        host.wait()
    assert seen == {"sleep 300 ", "sleep 301 "}
    assert wait_until_none_is_left(processes) == []


def test_stopping_ends_a_running_command(sandbox: Sandbox, processes: "Processes") -> None:
    started = threading.Event()
    raised: list[BaseException] = []

    def run() -> None:
        try:
            sandbox.exec(
                ["bash", "-c", "setsid sleep 300 & echo x; sleep 301"],
                timeout_s=60,
                env=processes.env,
                on_output=lambda data: started.set(),
            )
        except SandboxLost as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert started.wait(30)
    sandbox.stop()  # type: ignore[attr-defined]
    thread.join()
    assert len(raised) == 1
    assert processes.left() == []
    with pytest.raises(SandboxError, match="not running"):
        sandbox.exec(["true"])


def test_a_sandbox_that_is_gone_is_lost(kind: str, sandbox: Sandbox) -> None:
    if kind != "docker":
        shutil.rmtree(sandbox.workspace)
    else:
        name = sandbox.container.name  # type: ignore[attr-defined]
        subprocess.run(["docker", "rm", "--force", name], check=True, capture_output=True)
    for call in (
        lambda: sandbox.exec(["true"]),
        lambda: sandbox.read("x"),
        lambda: sandbox.write("x", b""),
        lambda: sandbox.exec(["true"], cwd="sub"),
    ):
        with pytest.raises(SandboxLost, match="gone"):
            call()


def test_a_workspace_that_its_own_user_cannot_enter_any_more_is_lost(sandbox: Sandbox, as_root: bool) -> None:
    sandbox.exec(["chmod", "0", sandbox.workspace])
    if as_root:  # nothing is shut to root
        assert sandbox.exec(["true"]).exit_code == 0
    else:
        for call in (lambda: sandbox.exec(["true"]), lambda: sandbox.read("x"), lambda: sandbox.write("x", b"")):
            with pytest.raises(SandboxLost, match="chmod"):
                call()
        assert sandbox.exec(["chmod", "700", sandbox.workspace], cwd="/").exit_code == 0


def test_a_command_that_deletes_the_workspace_loses_the_sandbox_or_its_files_only(sandbox: Sandbox) -> None:
    sandbox.write("file", b"")
    try:
        sandbox.exec(["bash", "-c", 'cd /; rm -rf "$1"', "bash", sandbox.workspace])
    except SandboxLost:
        assert not os.path.exists(sandbox.workspace)
    else:  # where the workspace is a mount it stays
        assert sandbox.exec(["ls", "-A"]).stdout == b""
