"""What the judge shares with others of the machine: when it holds the device, when not, and what it says of it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from judging import HOME, SCALE, model_new

from cuda_agent_judge import environment
from cuda_agent_judge.gpu import same, visible_gpu
from cuda_agent_judge.lock_queue import LockQueue, StillHeld
from cuda_agent_judge.nvml import foreign
from cuda_agent_judge.process_tree import descendants, is_running
from cuda_agent_judge.processes import JudgeFault
from cuda_agent_judge.report import Report
from cuda_agent_judge.session import SessionFault, load
from cuda_agent_judge.slots import Slots, build_places, if_free

KERNEL = """
#include "../binding_registry.h"
extern "C" void twice(const float *x, float *out, long count) { for (long i = 0; i < count; i++) out[i] = 2 * x[i]; }
"""
ONE = "GPU-00000000-1111-2222-3333-444444444444"


class Running:
    """A judge that runs, and its place."""

    def __init__(self, root: Path, command: str, locks: Path, kernels: dict[str, str], head: str = "") -> None:
        (root / "session" / "operator").mkdir(parents=True)
        (root / "session" / "operator" / "model.py").write_text(SCALE)
        settings = {"libraries": "any", "locks": str(locks)}
        (root / "session" / "session.json").write_text(json.dumps(settings))
        (root / "workspace" / "kernels").mkdir(parents=True)
        (root / "workspace" / "model_new.py").write_text(model_new("return torch.relu(x) * 2", head=head))
        for name, text in kernels.items():
            (root / "workspace" / "kernels" / name).write_text(text)
        self._report = root / "report.json"
        line = [sys.executable, "-I", str(HOME), command, "--session", str(root / "session"), "--workspace"]
        self.process = subprocess.Popen(
            [*line, str(root / "workspace"), "--report", str(self._report)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def says(self, words: str) -> str:
        """Wait until it says so; returns the line."""
        assert self.process.stderr is not None
        said = []
        for text in self.process.stderr:
            said.append(text)
            if words in text:
                return text
        raise AssertionError("".join(said))

    def report(self) -> Report:
        _, said = self.process.communicate()
        assert self._report.exists(), said
        return Report.from_json(self._report.read_text())


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Any]:
    """Start the judge; it is ended at the end."""
    (tmp_path / "locks").mkdir()
    running: list[Running] = []

    def start(
        command: str, *, kernels: dict[str, str] | None = None, locks: Path | None = None, head: str = ""
    ) -> Running:
        root = tmp_path / f"run{len(running)}"
        running.append(Running(root, command, locks or tmp_path / "locks", kernels or {}, head))
        return running[-1]

    yield start
    for one in running:
        one.process.kill()
        one.process.wait()
        assert one.process.stderr is not None
        one.process.stderr.close()


@contextlib.contextmanager
def held(locks: Path, resource: str, places: int = 1, limit_s: float = 600) -> Iterator[LockQueue]:
    queue = LockQueue(locks, resource, places)
    queue.acquire(limit_s)
    try:
        yield queue
    finally:
        queue.release()


def test_the_device_is_waited_for_and_lent_to_others_while_the_baseline_is_compiled(
    started: Any, tmp_path: Path
) -> None:
    locks = tmp_path / "locks"
    with held(locks, "build", build_places()) as build:
        others = [LockQueue(locks, "build", build_places()) for _ in range(build_places() - 1)]
        for other in others:
            other.acquire(0)
        with held(locks, "cpu"):
            judge = started("profile")
            judge.says("waiting for the processor: another run is timing")
        judge.says("waiting for a place to compile: another run is compiling")
        with held(locks, "cpu", limit_s=0):
            build.release()
            for other in others:
                other.release()
        report = judge.report()
    assert set(report.latency_ms) >= {"eager", "submission"}, (
        report.reason
    )  # timed, whatever a loaded machine lets it say
    assert report.held["device_wait_s"] > 1.0
    assert report.held["build_wait_s"] > 1.0
    assert report.held["device_s"] > 0.0
    assert report.held["build_s"] > 0.0
    assert sorted(os.listdir(locks)) == ["build.door", "cpu.door"]


def test_who_only_compiles_needs_no_turn_on_the_device(started: Any, tmp_path: Path) -> None:
    with held(tmp_path / "locks", "cpu"):
        report = started("compile", kernels={"twice.cpp": KERNEL}).report()
    assert report.status == "compiled"
    assert report.held["device_s"] == 0.0
    assert report.held["build_s"] > 0.0


def test_the_device_of_a_killed_judge_is_free_for_the_next(started: Any, tmp_path: Path) -> None:
    judge = started("verify")
    held_by_judge = False
    while not held_by_judge:
        assert judge.process.poll() is None
        try:
            with held(tmp_path / "locks", "cpu", limit_s=0):
                pass
            time.sleep(0.005)
        except StillHeld:
            held_by_judge = True
    judge.process.send_signal(signal.SIGKILL)
    with held(tmp_path / "locks", "cpu"):
        pass


def test_where_the_directory_is_gone_the_verdict_stands_and_says_so(started: Any, tmp_path: Path) -> None:
    report = started("verify", locks=tmp_path / "nowhere").report()
    assert report.status == "correct"
    assert any("the processor was not held alone" in note for note in report.notes)


def test_who_stands_behind_what_hangs_gives_up_with_a_sentence(tmp_path: Path) -> None:
    device = Slots("cpu", tmp_path, wait_limit_s=0.1).device
    with held(tmp_path, "cpu"), pytest.raises(JudgeFault, match="others have held the processor"), device.held():
        pass


def test_seconds_are_counted_also_where_there_is_no_directory() -> None:
    slots = Slots("cpu", None)
    with slots.device.held(), slots.device.lent(), slots.builds.held():
        pass
    assert set(slots.accounts) == {"device_s", "device_wait_s", "build_s", "build_wait_s"}
    assert slots.notes == []


@pytest.mark.parametrize(
    ("named", "found"),
    [
        (ONE, ONE),
        (f"{ONE},GPU-5", ONE),
        (ONE.replace("GPU", "MIG"), ONE.replace("GPU", "MIG")),
    ],
)
def test_a_gpu_that_is_named_by_its_uuid_is_taken_at_its_word(named: str, found: str) -> None:
    assert visible_gpu({"CUDA_VISIBLE_DEVICES": named}) == found


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [(ONE, ONE.upper(), True), (ONE, ONE[:-1] + "5", False), ("", ONE, True), (ONE, "", True)],
)
def test_gpus_are_told_apart_by_their_uuid(one: str, other: str, expected: bool) -> None:
    assert same(one, other) is expected


def test_processes_that_compute_beside_ours_are_counted() -> None:
    here = os.getpid()
    nobody = {2**22 + 1, 2**22 + 2, 2**22 + 3}  # above any process number: of another namespace
    assert foreign({here}, {here}) == 0
    assert foreign({here, 1}, {here}) == 1
    assert foreign({1}, {here}) == 1
    assert foreign(set(), {here}) == 0
    assert foreign(nobody, {here}) == 1


@pytest.mark.parametrize("value", ["relative", 3, ["/tmp"], ""])
def test_a_directory_of_locks_is_an_absolute_path(tmp_path: Path, value: object) -> None:
    (tmp_path / "session.json").write_text(json.dumps({"locks": value}))
    with pytest.raises(SessionFault, match="absolute path"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("given", "seen"),
    [(None, "0"), ("", ""), ("1", "1"), ("2,0", "2"), (f" {ONE} ,GPU-5", ONE), ("-1", "-1")],
)
def test_the_judge_and_its_workers_see_one_gpu_whatever_the_caller_shows(given: str | None, seen: str) -> None:
    caller = {"PATH": "/bin"} if given is None else {"PATH": "/bin", "CUDA_VISIBLE_DEVICES": given}
    assert environment.clean(caller)["CUDA_VISIBLE_DEVICES"] == seen


def test_work_that_can_wait_takes_the_device_only_where_nobody_has_it(tmp_path: Path) -> None:
    with if_free("cpu", tmp_path) as first, if_free("cpu", tmp_path) as second, if_free("cpu", None) as alone:
        assert (first, second, alone) == (True, False, True)
    with if_free("cpu", tmp_path) as again:
        assert again


def test_the_device_is_free_when_the_submissions_process_is_gone(started: Any, tmp_path: Path) -> None:
    run = started("verify", head="import os\nprint('worker', os.getpid(), flush=True)")
    worker = int(run.says("worker").split()[1])
    queue = LockQueue(tmp_path / "locks", "cpu")
    queue.acquire(120)
    running = is_running(worker)
    queue.release()
    assert not running  # its memory on the device is what the next one needs
    assert run.report().status == "correct"


def test_a_fault_of_the_judge_is_one_sentence(started: Any, tmp_path: Path) -> None:
    with held(tmp_path / "locks", "cpu"):
        run = started("verify")
        run.says("waiting for the processor")
        reference = min(descendants(run.process.pid))  # the first that is forked
        os.kill(reference, signal.SIGKILL)
    _, said = run.process.communicate()
    assert run.process.returncode == 3
    assert "the reference worker was killed by SIGKILL" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("held", [[], {"device_s": "x"}, {"device_s": float("inf")}, {"device_s": -1.0}, 3])
def test_times_that_are_none_are_no_report(held: object) -> None:
    with pytest.raises(ValueError, match="malformed"):
        Report.from_json(json.dumps({"schema": 1, "command": "verify", "status": "correct", "held": held}))
