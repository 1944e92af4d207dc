"""Whole runs in a container, as a person starts them: how they end and that nothing is left."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests import docker_engine
from tests.e2e.program import GOOD, ROOT, command, cuda_agent, environment

from cuda_agent.history import read
from cuda_agent.trajectory import Observation

pytestmark = pytest.mark.docker
IN_DOCKER = ("--sandbox", "docker", "--target", "cpu")


def env(**more: str) -> dict[str, str]:
    return environment(CUDA_AGENT_IMAGE=docker_engine.IMAGE, **more)


def containers_of(pid: int, *more: str) -> list[str]:
    argv = ["docker", "ps", "--quiet", "--filter", f"label=cuda-agent.owner.pid={pid}", *more]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split()


def wait_for_container(program: subprocess.Popen[str]) -> None:
    while not containers_of(program.pid):
        assert program.poll() is None, program.communicate()
        time.sleep(0.01)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What a run on the first example says in the end."""
    folder = tmp_path_factory.mktemp("a run")
    operator = ROOT / "examples/diag_matmul/model.py"
    done = cuda_agent(
        "optimize", operator, *IN_DOCKER, "--run-dir", "run", "--json", cwd=folder, env=env(), timeout_s=900
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, object] = json.loads(done.stdout)
    return {**document, "folder": str(folder / "run")}


def test_the_target_is_reached_under_three_users(outcome: dict[str, object]) -> None:
    result, place = outcome["result"], outcome["place"]
    assert isinstance(result, dict)
    assert isinstance(place, dict)
    assert (result["status"], result["final"], result["isolation"]) == ("win", True, "separate-uid")
    assert place["sandbox"] == "docker"
    assert outcome["stop"] == {"reason": "target_reached", "detail": ""}


def test_the_workspace_is_the_caller_s_and_holds_plain_files(outcome: dict[str, object]) -> None:
    workspace = Path(str(outcome["folder"]), "workspace")
    paths = [workspace, *workspace.rglob("*")]
    assert (workspace / "model_new.py").is_file()
    assert {path.lstat().st_uid for path in paths} == {os.geteuid()}
    assert not any(path.is_symlink() for path in paths)


@pytest.mark.parametrize(
    "numbers",
    [
        [signal.SIGINT],
        [signal.SIGTERM],
        [signal.SIGHUP],
        [signal.SIGINT, signal.SIGINT],
        [signal.SIGTERM, signal.SIGTERM, signal.SIGHUP],
    ],
    ids=lambda numbers: "+".join(number.name for number in numbers),
)
def test_a_signal_at_the_start_ends_the_run_and_leaves_nothing(
    tmp_path: Path, numbers: Sequence[signal.Signals]
) -> None:
    (tmp_path / "good.py").write_text(GOOD)
    program = subprocess.Popen(
        command("optimize", "good.py", *IN_DOCKER, "--run-dir", "run", "--json"),
        cwd=tmp_path, env=env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with program:
        wait_for_container(program)
        for number in numbers:
            program.send_signal(number)
        printed, said = program.communicate(timeout=120)
    assert program.returncode == 130, said
    assert "Traceback" not in said
    assert containers_of(program.pid, "--all") == []
    assert json.loads(printed)["status"] == "interrupted"


def test_a_killed_program_s_container_goes_by_itself(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(GOOD)
    argv = command("optimize", "good.py", *IN_DOCKER, "--run-dir", "run")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(argv, cwd=tmp_path, env=env(), text=True, **quiet) as program:  # type: ignore[call-overload]
        wait_for_container(program)
        program.kill()
    limit = time.monotonic() + 60
    while containers_of(program.pid, "--all") and time.monotonic() < limit:
        time.sleep(0.1)
    assert containers_of(program.pid, "--all") == []


def test_a_container_that_is_removed_ends_the_run_as_lost(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "script.json").write_text("[]")
    program = subprocess.Popen(
        command("optimize", "good.py", *IN_DOCKER, "--model", "scripted:script.json", "--run-dir", "run"),
        cwd=tmp_path, env=env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with program:
        wait_for_container(program)
        subprocess.run(["docker", "rm", "--force", *containers_of(program.pid)], check=True, capture_output=True)
        _, said = program.communicate(timeout=120)
    assert program.returncode == 3
    # Docker ends a container before it removes it, and may be asked in between.
    assert "is gone" in said or "was stopped" in said
    assert said.count("\n") == 1


def test_a_model_s_commands_reach_neither_the_judge_s_state_nor_the_host(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(GOOD)
    script = "env | sort; ls /var/lib/cuda-agent; python3 -m utils.analysis; ln -s /etc/passwd link; mkdir -p deep/er"
    calls = [{"name": "Bash", "arguments": {"command": script, "description": "x"}}]
    (tmp_path / "script.json").write_text(json.dumps([{"calls": calls}, {"gave_up": "seen enough"}]))
    arguments = ("optimize", "good.py", *IN_DOCKER, "--model", "scripted:script.json", "--run-dir", "run")
    done = cuda_agent(*arguments, cwd=tmp_path, env=env(SOME_API_KEY="host-secret"))
    assert done.returncode == 1, done.stderr
    shown = next(event.text for event in read(tmp_path / "run/trajectory.jsonl") if isinstance(event, Observation))
    assert "host-secret" not in shown
    assert "Permission denied" in shown
    assert "totals:" in shown
    assert not (tmp_path / "run/workspace/link").exists()
    assert (tmp_path / "run/workspace/deep/er").is_dir()


@pytest.mark.parametrize(
    ("arguments", "more", "code", "words"),
    [
        ((), {"CUDA_AGENT_IMAGE": "cuda-agent-no-such-image:none"}, 2, "cuda-agent image build"),
        ((), {"DOCKER_HOST": "unix:///nowhere/docker.sock"}, 3, "systemctl start docker"),
        (("--python", "/usr/bin/python3"), {}, 2, "leave it out"),
        (("--target", "cuda"), {}, 2, "target cuda is not ready"),
    ],
    ids=["no image", "no daemon", "a Python of this machine", "no GPU"],
)
def test_what_is_missing_is_one_sentence_before_anything_starts(
    tmp_path: Path, arguments: Sequence[str], more: dict[str, str], code: int, words: str
) -> None:
    (tmp_path / "good.py").write_text(GOOD)
    done = cuda_agent(
        "optimize", "good.py", "--sandbox", "docker", "--run-dir", "run", *arguments, cwd=tmp_path, env=env() | more
    )
    assert done.returncode == code
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()
