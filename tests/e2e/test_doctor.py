"""`cuda-agent doctor` and `cuda-agent image` as a person runs them, without an engine."""

import json
from pathlib import Path

import pytest
from tests.e2e.program import cuda_agent, environment

NOWHERE = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}


def test_doctor_says_what_is_wrong_and_what_mends_it(tmp_path: Path) -> None:
    env = environment(**NOWHERE, CUDA_AGENT_PYTHON="/nowhere/python3", OPENAI_API_KEY="sk-secret")
    done = cuda_agent("doctor", cwd=tmp_path, env=env)
    assert done.returncode == 1
    assert "!!  python" in done.stdout
    assert "-> run `make install`" in done.stdout
    assert "OPENAI_API_KEY" in done.stdout
    assert "secret" not in done.stdout + done.stderr
    assert done.stderr == ""


def test_doctor_prints_one_document_when_asked(tmp_path: Path) -> None:
    done = cuda_agent("doctor", "--json", cwd=tmp_path, env=environment(**NOWHERE, CUDA_AGENT_PYTHON="/nowhere"))
    document = json.loads(done.stdout)
    assert document["ok"] is False
    by_name = {check["name"]: check for check in document["checks"]}
    assert by_name["python"]["state"] == "problem"
    assert by_name["docker"]["state"] in ("problem", "absent")
    assert {"gpu", "keys", "disk"} <= set(by_name)


@pytest.mark.parametrize("command", ["build", "check"])
def test_an_image_without_a_daemon_is_one_sentence(tmp_path: Path, command: str) -> None:
    done = cuda_agent("image", command, cwd=tmp_path, env=environment(**NOWHERE))
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert "Docker" in done.stderr
    assert "Traceback" not in done.stderr
