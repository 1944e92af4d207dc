"""A batch whose runs are in containers, one of which is lost."""

import json
import subprocess
import time
from pathlib import Path

import pytest
from tests import docker_engine
from tests.e2e.program import GOOD, command, environment

pytestmark = pytest.mark.docker
SCRIPT = [
    {"calls": [{"name": "Bash", "arguments": {"command": "sleep 15", "description": "wait"}}]},
    {"gave_up": "seen enough"},
]


def container_of(run: Path) -> str:
    """The container of a run's process, whose id its label holds; the process has the run's folder in its words."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes()
        except OSError:
            continue
        if f"--run-dir={run}".encode() in words:
            label = f"label=cuda-agent.owner.pid={entry.parent.name}"
            argv = ["docker", "ps", "--quiet", "--filter", label]
            return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()
    return ""


def test_a_lost_container_is_gone_on_with_and_the_other_run_does_not_hear_of_it(tmp_path: Path) -> None:
    (tmp_path / "ops").mkdir()
    for name in ("kept", "lost"):
        (tmp_path / f"ops/{name}.py").write_text(GOOD)
    (tmp_path / "script.json").write_text(json.dumps(SCRIPT))
    argv = command("batch", "ops", "--batch-dir", "b", "--model", "scripted:script.json", "--sandbox", "docker",
                   "--target", "cpu", "--workers", "2", "--json")  # fmt: skip
    env = environment(CUDA_AGENT_IMAGE=docker_engine.IMAGE)
    trajectory = tmp_path / "b/runs/lost/trajectory.jsonl"
    with subprocess.Popen(argv, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True) as program:
        while not trajectory.exists() or b'"tool_call"' not in trajectory.read_bytes():
            assert program.poll() is None
            time.sleep(0.1)
        subprocess.run(["docker", "rm", "--force", container_of(tmp_path / "b/runs/lost")], check=True)
        printed, _ = program.communicate(timeout=600)
    document = json.loads(printed)
    assert (program.returncode, document["status"]) == (1, "done")
    assert (document["results"][0]["counted"], document["results"][0]["failures"]) == (2, 1)
    attempts = [json.loads(line) for line in (tmp_path / "b/attempts.jsonl").read_text().splitlines()]
    assert sorted((one["job"], one["fault"]) for one in attempts) == [
        ("kept", ""), ("lost", ""), ("lost", "infrastructure")
    ]  # fmt: skip
