"""bench.neighbour: in which order it judges, on which GPUs, and that its load is there when it should be, and gone."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from bench.neighbour import following
from bench.neighbour_table import IDLE, LOADED

from cuda_agent.sandbox.python import find_python
from cuda_agent_judge.process_tree import is_running

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[3]
TWO_CORES = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
GPUS = ["GPU-aaaaaaaa-0000-0000-0000-000000000000", "GPU-bbbbbbbb-0000-0000-0000-000000000000"]


def all_of(names: list[str], repeats: int, done: list[dict[str, Any]]) -> list[tuple[str, str]]:
    found = []
    while (following_one := following(done, names, repeats)) is not None:
        found.append(following_one)
        done.append({"operator": following_one[0], "neighbour": following_one[1]})
    return found


def test_each_operator_has_its_pairs_and_states_follow_as_a_b_b_a() -> None:
    names = ["a", "b", "c", "d"]
    order = all_of(names, 2, [])
    assert [name for name, _ in order] == [name for name in names * 2 for _ in range(2)]
    states = [state for _, state in order]
    assert states[:8] == [IDLE, LOADED, LOADED, IDLE] * 2
    assert states[8:] == [LOADED, IDLE, IDLE, LOADED] * 2
    for name in names:
        first = [one for one, other in pairwise(order) if one[0] == other[0] == name]
        assert {state for _, state in first} == {IDLE, LOADED}  # each goes first as often as the other


def test_a_pair_that_was_begun_comes_first_and_earlier_lines_count() -> None:
    done = [{"operator": "a", "neighbour": IDLE}, {"operator": "a", "neighbour": LOADED}]
    done += [{"operator": "b", "neighbour": LOADED}, {"operator": "a"}]
    assert all_of(["a", "b", "c"], 1, done) == [("b", IDLE), ("c", IDLE), ("c", LOADED)]


@contextmanager
def started(tmp_path: Path, *judge: str, only: str = "softmax", repeats: int = 1) -> Iterator[subprocess.Popen[str]]:
    """The program on two cores, with this judge in place of the real one."""
    line = [sys.executable, "-m", "tests.unit.agent.neighbour.program", sys.executable, str(HERE / "judging.py")]
    line += [str(tmp_path / "notes"), *judge, "--", "--target", "cpu", "--only", only, "--repeats", str(repeats)]
    environ = {**os.environ, "CUDA_AGENT_PYTHON": str(find_python(host=os.environ).path)}
    environ["PYTHONPATH"] = ":".join(str(ROOT / name) for name in ("agent", "tools", "sandbox_image", "."))
    environ["TMPDIR"] = str(tmp_path)  # one that is killed leaves its folder
    process = subprocess.Popen(
        [*line, "--append", str(tmp_path / "lines")], cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def notes(tmp_path: Path) -> list[dict[str, Any]]:
    path = tmp_path / "notes"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@TWO_CORES
def test_the_load_is_at_work_beside_loaded_verdicts_and_only_then(tmp_path: Path) -> None:
    with started(tmp_path, repeats=2) as process:
        said, _ = process.communicate()
    lines = [json.loads(line) for line in (tmp_path / "lines").read_text().splitlines()]
    assert [line["neighbour"] for line in lines] == [IDLE, LOADED, LOADED, IDLE]
    assert [len(note["loads"]) for note in notes(tmp_path)] == [0, 1, 1, 0]
    assert all(len(note["cores"]) == 1 for note in notes(tmp_path))
    assert all(line["on"] != line["beside"] for line in lines)
    for line in lines:
        assert ("tflop_s" in line, "gb_s" in line) == (line["neighbour"] == LOADED,) * 2
        if line["neighbour"] == LOADED:
            assert line["tflop_s"] > 0
            assert line["gb_s"] > 0
    assert not any(is_running(pid) for note in notes(tmp_path) for pid in note["loads"])
    assert "| softmax | 2 | 2 | 0 | 2 | 2 | +0.00 % [+0.00, +0.00] | 1.0000 | 1.0000 |" in said


@TWO_CORES
@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)])
def test_the_load_is_gone_when_the_program_is_ended(tmp_path: Path, number: signal.Signals, code: int) -> None:
    with started(tmp_path, "hangs") as process:
        while not (found := [pid for note in notes(tmp_path) for pid in note["loads"]]):
            assert process.poll() is None
            time.sleep(0.05)
        assert is_running(found[0])
        process.send_signal(number)
        process.wait()
        until = time.monotonic() + 300
        while is_running(found[0]) and time.monotonic() < until:
            time.sleep(0.05)
        assert not is_running(found[0])
    assert process.returncode == code


@pytest.mark.parametrize(
    ("there", "shown", "leaves"), [(0, None, "of 0"), (1, None, "of 1"), (2, "1", "of 2"), (2, "", "of 2")]
)
def test_fewer_than_two_gpus_are_refused_in_one_sentence(
    tmp_path: Path, there: int, shown: str | None, leaves: str
) -> None:
    done = asked_of(tmp_path, there, shown, "-m", "bench.neighbour", "--append", str(tmp_path / "lines"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"two GPUs are needed, and {leaves} that nvidia-smi lists")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("shown", "found"),
    [(None, GPUS), ("1,0", GPUS[::-1]), (f"{GPUS[1]},{GPUS[0]}", GPUS[::-1]), ("GPU-b,0", GPUS[::-1])],
)
def test_the_first_two_that_may_be_used_are_taken_by_uuid(tmp_path: Path, shown: str | None, found: list[str]) -> None:
    script = "from bench.neighbour import devices; print(*devices('cuda'))"
    assert asked_of(tmp_path, 2, shown, "-c", script).stdout.split() == found


def asked_of(tmp_path: Path, there: int, shown: str | None, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python where nvidia-smi lists so many GPUs and $CUDA_VISIBLE_DEVICES is as it is shown."""
    program = tmp_path / "nvidia-smi"
    listed = "".join(f"echo '{n}, {uuid}, NVIDIA H200, 580.1'\n" for n, uuid in enumerate(GPUS[:there]))
    program.write_text(f"#!/bin/sh\n{listed}")
    program.chmod(0o755)
    environ = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    environ["PATH"] = f"{tmp_path}:{os.environ['PATH']}"
    environ["PYTHONPATH"] = ":".join(str(ROOT / name) for name in ("agent", "tools", "sandbox_image", "."))
    environ |= {} if shown is None else {"CUDA_VISIBLE_DEVICES": shown}
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environ, capture_output=True, text=True)
