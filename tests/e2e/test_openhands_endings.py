"""How a run by an LLM ends when the server does not play along."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.e2e.llm_server import Raw, error, serving
from tests.e2e.program import GOOD, command, cuda_agent, environment

KEY = "sk-planted-7f3a9c51e2"


@pytest.fixture
def arguments(tmp_path: Path, sandbox_python: str) -> tuple[str, ...]:
    (tmp_path / "good.py").write_text(GOOD)
    where = ("--run-dir", "run", "--python", sandbox_python, "--target", "cpu", "--json")
    return ("optimize", "good.py", "--model", "some-model", "--api-key-env", "PLANTED", *where)


def test_a_key_that_is_not_accepted_is_one_sentence_and_exit_code_3(arguments: tuple[str, ...], tmp_path: Path) -> None:
    with serving([error(401, f"invalid api key {KEY}")]) as server:
        done = cuda_agent(*arguments, "--api-base", server.base, cwd=tmp_path, env=environment(PLANTED=KEY))
    assert done.returncode == 3
    stop = json.loads(done.stdout)["stop"]
    assert (stop["reason"], stop["kind"]) == ("model_error", "authentication")
    assert "does not accept the key; set the right one ($PLANTED)" in stop["detail"]
    assert KEY not in done.stdout + done.stderr + (tmp_path / "run/trajectory.jsonl").read_text()


def test_an_interrupt_while_the_server_thinks_ends_the_run(arguments: tuple[str, ...], tmp_path: Path) -> None:
    with serving([Raw(hang_s=600.0)]) as server:
        program = subprocess.Popen(
            command(*arguments, "--api-base", server.base),
            cwd=tmp_path,
            env=environment(PLANTED=KEY),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with program:
            while not server.asked:
                assert program.poll() is None, program.communicate()
                time.sleep(0.1)
            program.send_signal(signal.SIGINT)
            printed, said = program.communicate(timeout=120)
    assert program.returncode == 130
    assert json.loads(printed)["stop"]["reason"] == "interrupted"
    assert "Traceback" not in said
