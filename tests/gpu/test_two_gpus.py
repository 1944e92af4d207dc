"""On a machine with two GPUs: the one that was given is used and locked, and a submission has no use of the other."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from bench.load import Load, busyness
from conftest import Judge
from judging import HOME, SCALE, model_new
from suite.devices import ROWS
from suite.row import Row

from cuda_agent_judge.gpu import named
from cuda_agent_judge.lock_queue import LockQueue, StillHeld
from cuda_agent_judge.process_tree import is_running

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two NVIDIA GPUs"),
]
LIST = "import torch; print(*(torch.cuda.get_device_properties(n).uuid for n in range(torch.cuda.device_count())))"
SAYS_WHERE = model_new(
    "if x.device not in said: print('ran on', torch.cuda.get_device_properties(x.device).uuid, flush=True)\n"
    "said.add(x.device)\nreturn torch.relu(x) * 2",
    head="said = set()",
)
ENDLESS = model_new("while True: pass")


@pytest.fixture(scope="module")
def uuids() -> list[str]:
    """All of this machine's, in CUDA's order."""
    environ = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    listed = subprocess.run([sys.executable, "-c", LIST], env=environ, capture_output=True, text=True, check=True)
    return [named(uuid) for uuid in listed.stdout.split()]


@pytest.mark.parametrize("how", ["{0}", "{1}", "0", "1", "1,0", "{1},{0}"])
def test_what_was_given_by_uuid_or_by_number_is_used_and_locked(
    judge: Judge, uuids: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    (tmp_path / "locks").mkdir()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", how.format(*uuids))
    given = uuids[how.startswith(("1", "{1}"))]
    settings = {"libraries": "any", "locks": str(tmp_path / "locks")}
    answer = judge(SAYS_WHERE, operator=SCALE, kernels={}, command="profile", **settings)
    report = answer.report
    assert report.environment["gpu"] == given, report
    assert report.latency_ms["submission"].calls > 0
    ran_on = {named(line.split()[-1]) for line in answer.stderr.splitlines() if line.startswith("ran on ")}
    assert ran_on == {given}
    assert f"{given}.door" in os.listdir(tmp_path / "locks")
    assert not any(uuid in name for uuid in uuids if uuid != given for name in os.listdir(tmp_path / "locks"))


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_submission_that_uses_the_other_gpu_is_refused(
    judge: Judge, uuids: list[str], monkeypatch: pytest.MonkeyPatch, row: Row, first: int
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", f"{uuids[first]},{uuids[1 - first]}")
    settings = row.settings_for("cuda")
    answer = judge(row.source, operator=SCALE, kernels={}, command=row.command, **settings)
    assert (answer.report.status in row.statuses, answer.code) == (True, 1), answer.report
    assert row.said in answer.report.reason


class Hanging:
    """A judge whose submission does not end; it has its GPU."""

    def __init__(self, root: Path, gpu: str, locks: Path) -> None:
        (root / "session/operator").mkdir(parents=True)
        (root / "workspace/kernels").mkdir(parents=True)
        settings = {"target": "cuda", "libraries": "any", "locks": str(locks), "call_timeout_s": 3000}
        (root / "session/session.json").write_text(json.dumps(settings))
        (root / "session/operator/model.py").write_text(SCALE)
        (root / "workspace/model_new.py").write_text(ENDLESS)
        line = [sys.executable, "-I", str(HOME), "verify", "--session", str(root / "session")]
        line += ["--workspace", str(root / "workspace"), "--report", str(root / "report.json")]
        self.process = subprocess.Popen(line, env={**os.environ, "CUDA_VISIBLE_DEVICES": gpu})


@pytest.fixture
def hanging(uuids: list[str], tmp_path: Path) -> Iterator[Hanging]:
    """On the second GPU."""
    (tmp_path / "locks").mkdir()
    found = Hanging(tmp_path / "hanging", uuids[1], tmp_path / "locks")
    yield found
    found.process.kill()
    found.process.wait()


def is_free(locks: Path, gpu: str) -> bool:
    queue = LockQueue(locks, gpu)
    try:
        queue.acquire(0)
    except StillHeld:
        return False
    queue.release()
    return True


def test_a_dead_holders_gpu_is_free_for_the_next_and_the_other_one_always_was(
    judge: Judge, uuids: list[str], hanging: Hanging, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = tmp_path / "locks"
    while is_free(locks, uuids[1]):
        assert hanging.process.poll() is None
        time.sleep(0.02)
    assert is_free(locks, uuids[0])
    hanging.process.kill()
    hanging.process.wait()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", uuids[1])
    answer = judge(model_new("return torch.relu(x) * 2"), operator=SCALE, kernels={}, libraries="any", locks=str(locks))
    assert (answer.report.status, answer.report.environment["gpu"]) == ("correct", uuids[1]), answer.report
    assert not any("was not held alone" in note for note in answer.report.notes)


def test_a_load_keeps_its_gpu_busy_and_no_other_and_ends(uuids: list[str]) -> None:
    with Load("cuda", uuids[1]) as load:
        began = time.monotonic()
        percent = busyness("cuda", uuids[1])
        until = began + 60
        while (percent() or 0) < 90 and time.monotonic() < until:
            time.sleep(0.2)
        assert (percent() or 0) >= 90
        assert (busyness("cuda", uuids[0])() or 0) < 50
        time.sleep(1)  # readings come every 0.1 s
        rates = load.rates(began, time.monotonic())
        assert rates["tflop_s"] > 1
        assert rates["gb_s"] > 1
    assert not is_running(load.pid)
