"""`cuda-agent doctor` and `cuda-agent image` as a person runs them, without an engine."""

import json
from pathlib import Path

import pytest
from tests.e2e.llm_server import Answer, call, error, says, serving
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


def test_doctor_asks_a_model_for_one_call_and_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    answers: list[Answer] = [
        says("", call("c1", "report", {"number": 7})),
        error(401, "Incorrect API key provided: sk-mine-4711"),
    ]
    with serving(answers) as server:
        env = environment(**NOWHERE, CUDA_AGENT_PYTHON="/nowhere", MINE="sk-mine-4711")
        ask = ("doctor", "--model", "tiny", "--api-base", server.base, "--api-key-env", "MINE", "--json")
        found = []
        for _ in answers:
            done = cuda_agent(*ask, cwd=tmp_path, env=env)
            assert "4711" not in done.stdout + done.stderr
            found.append({check["name"]: check for check in json.loads(done.stdout)["checks"]}["model"])
    assert [one["state"] for one in found] == ["fine", "problem"]
    assert "answers and calls tools" in found[0]["said"]
    assert "does not accept the key" in found[1]["said"]
    assert len(server.asked) == 2
