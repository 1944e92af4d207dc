"""The resident judge: what stands between two commands, what of it a submission or its user may break, and what not."""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from judging import HOME, SCALE, model_new
from serving import Served, Told, framed, hear, runs

from cuda_agent_judge import asking
from cuda_agent_judge.process_tree import descendants

RIGHT = model_new("return torch.relu(x) * 2")
WRONG = model_new("return torch.relu(x) * 3")
KEY = secrets.token_bytes(32)


@dataclass
class Resident:
    """A judge that serves one operator, as a run of the same user starts it."""

    served: Served
    ground: Path

    def submit(self, text: str) -> None:
        (self.ground / "workspace" / "model_new.py").write_text(text)

    def verified(self) -> dict[str, object]:
        told = self.served.ask("verify", "--json")
        assert told.stdout, told.stderr
        report: dict[str, object] = json.loads(told.stdout.splitlines()[-1])
        return report

    def host(self, command: str, key: bytes = KEY) -> tuple[int, Path]:
        """Ask as the host's client does; the exit code and where the answer is."""
        nonce, file = secrets.token_hex(8), self.ground / f"{secrets.token_hex(4)}.json"
        line = [sys.executable, "-I", str(HOME), command, "--socket", str(self.served.place), "--nonce", nonce]
        line += ["--token", asking.token(key, command, nonce), "--report", str(file)]
        return subprocess.run(line, capture_output=True, check=False).returncode, file

    @property
    def warm_parent(self) -> int:
        [pid] = _children(self.served.process.pid)
        return pid

    @property
    def worker(self) -> int:
        """The reference worker that stands."""
        [pid] = _children(self.warm_parent)
        return pid


def _children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture(scope="module")
def resident() -> Iterator[Resident]:
    ground = Path(tempfile.mkdtemp(prefix="warm-"))
    ground.chmod(0o755)
    (ground / "session" / "operator").mkdir(parents=True)
    (ground / "workspace" / "kernels").mkdir(parents=True)
    (ground / "session" / "operator" / "model.py").write_text(SCALE)
    (ground / "session" / "session.json").write_text('{"libraries": "any", "model_shares_uid": true}')
    one = _start(ground)
    yield one
    below = [one.served.process.pid, *descendants(one.served.process.pid)]
    one.served.process.kill()
    one.served.process.communicate()
    assert _gone(below)
    shutil.rmtree(ground)


def _start(ground: Path) -> Resident:
    place = ground / "judge.sock"
    paths = ["--session", str(ground / "session"), "--workspace", str(ground / "workspace"), "--socket", str(place)]
    process = subprocess.Popen(
        [sys.executable, "-I", str(HOME), "serve", *paths, "--keyed"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(KEY.hex() + "\n")
    process.stdin.flush()
    process.stdout.readline()
    return Resident(Served(process, place), ground)


def _gone(pids: list[int]) -> bool:
    """Whether all of them end; the limit only ends a failing test."""
    limit = time.monotonic() + 60
    while any(map(runs, pids)) and time.monotonic() < limit:
        time.sleep(0.02)
    return not any(map(runs, pids))


def test_the_parent_is_fit_to_fork_and_the_reference_worker_stands_from_one_judgement_to_the_next(
    resident: Resident,
) -> None:
    resident.submit(RIGHT)
    assert resident.host("verdict")[0] == 0  # from now on the baseline is compiled
    first = resident.verified()
    worker = resident.worker
    resident.submit(WRONG)
    second = resident.verified()
    assert (first["status"], second["status"]) == ("correct", "incorrect")
    assert resident.worker == worker
    assert len(os.listdir(f"/proc/{resident.warm_parent}/task")) == 1
    phases = second["phases"]
    assert isinstance(phases, dict)
    assert not {"torch", "reference.operator", "reference.first run"} & phases.keys()


def test_nothing_of_a_submission_stays_beside_the_worker(resident: Resident) -> None:
    leaves = "import subprocess\nsubprocess.Popen(['sleep', '1000'], start_new_session=True)"
    resident.submit(model_new("return torch.relu(x) * 2", init=leaves))
    assert resident.verified()["status"] == "correct"
    assert _children(resident.warm_parent) == [resident.worker]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_worker_that_was_ended_or_held_up_costs_no_verdict(resident: Resident, number: signal.Signals) -> None:
    resident.submit(RIGHT)
    resident.verified()
    before = resident.worker
    os.kill(before, number)
    if number == signal.SIGSTOP:
        os.kill(before, signal.SIGCONT)  # as the parent does when a judgement has ended
    assert resident.verified()["status"] == "correct"


def test_a_worker_whose_priority_was_changed_serves_no_more(resident: Resident) -> None:
    resident.submit(WRONG)
    resident.host("verdict")  # unlike `verify` it waits for the worker, whatever that is at
    slowed = resident.worker
    os.setpriority(os.PRIO_PROCESS, slowed, 19)
    assert resident.host("verdict")[0] == 1
    assert resident.worker != slowed


def test_without_its_warm_parent_the_judge_starts_cold_and_another_takes_its_place(resident: Resident) -> None:
    resident.submit(RIGHT)
    old = resident.warm_parent
    worker = resident.worker
    os.kill(old, signal.SIGKILL)
    assert resident.verified()["status"] == "correct"
    assert _gone([old, worker])
    assert resident.verified()["status"] == "correct"
    assert resident.warm_parent != old


def test_a_client_that_goes_takes_its_judgement_along_and_the_next_is_answered(resident: Resident) -> None:
    resident.submit("while True: pass\n")
    with resident.served.connect() as one:
        one.sendall(framed(b'{"command": "verify", "arguments": []}'))
        parent = resident.warm_parent
        while len(descendants(parent)) < 4:
            time.sleep(0.02)
    resident.submit(RIGHT)
    assert resident.verified()["status"] == "correct"
    assert _children(resident.warm_parent) == [resident.worker]


def test_the_host_gets_a_sealed_report_of_its_own_nonce(resident: Resident) -> None:
    resident.submit(WRONG)
    code, file = resident.host("verdict")
    seal, _, report = file.read_bytes().partition(b"\n")
    assert (code, json.loads(report)["status"]) == (1, "incorrect")
    assert seal.decode() == asking.seal(KEY, report)
    assert seal.decode() != asking.seal(KEY, report.replace(b"incorrect", b"win"))


def test_whoever_has_no_key_is_no_host(resident: Resident) -> None:
    assert resident.host("verdict", secrets.token_bytes(32))[0] == 2
    assert resident.host("serve")[0] == 2


FORGED = {
    "a token for another nonce": {"nonce": "other", "token": asking.token(KEY, "verdict", "mine")},
    "a token for another command": {"nonce": "n", "token": asking.token(KEY, "analyze", "n")},
    "an empty token": {"nonce": "n", "token": ""},
    "a number": {"nonce": 1, "token": 2},
}


@pytest.mark.parametrize("shown", FORGED.values(), ids=FORGED.keys())
def test_a_verdict_is_the_host_s_alone(resident: Resident, shown: dict[str, object]) -> None:
    with resident.served.connect() as one:
        one.sendall(framed(json.dumps({"command": "verdict", "arguments": [], **shown}).encode()))
        told: Told = hear(one)
    assert told.code == 2
    assert not told.stdout
