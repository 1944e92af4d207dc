"""kill -9 of a batch at any moment loses nothing: started again, it ends with the same set, nothing run twice."""

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from bench.batch_kill import changed, written
from tests.e2e.program import ROOT, SOURCES, environment
from tests.unit.agent.batch.field import Field

from cuda_agent.history import read
from cuda_agent.trajectory import Observation, RunStarted

DRIVER = Path(__file__).with_name("batch_driver.py")
OPERATORS = [f"op_{number}" for number in range(1, 13)]
KILLS, EVENTS = 6, 200
"""At most so many more events from a start to its kill; a run has about a hundred."""


@dataclass
class Ended:
    """A batch that was killed at random moments and came to its end."""

    folder: Path
    exit_code: int
    faults: list[str]
    kills: int


@pytest.fixture(scope="module", params=[1])
def ended(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    folder = tmp_path_factory.mktemp("ein stapel")
    field, draw = Field(folder), random.Random(request.param)
    field.lay(**dict.fromkeys(OPERATORS, "-"))
    faults: list[str] = []
    before = written(field.batch)
    for _ in range(KILLS):
        killed_after(draw.randrange(EVENTS), folder)
        now = written(field.batch)
        faults += changed(before, now)
        before = now
    with started(folder) as last:
        code = last.wait()
    return Ended(folder, code, faults + changed(before, written(field.batch)), KILLS)


def started(folder: Path) -> subprocess.Popen[bytes]:
    path = os.pathsep.join([*SOURCES, str(ROOT)])
    command = [sys.executable, str(DRIVER), str(folder), "2", "real"]
    return subprocess.Popen(command, env=environment(PYTHONPATH=path), stdout=subprocess.DEVNULL)


def killed_after(events: int, folder: Path) -> None:
    """Start the batch and kill it when so many more events are on disk."""

    def count() -> int:
        return sum(data.count(b"\n") for _, data in written(folder / "batch").values())

    due = count() + events
    with started(folder) as program:
        while count() < due and program.poll() is None:
            time.sleep(0.01)
        program.kill()


def test_it_ends_with_the_same_set_and_every_run_came_to_its_end(ended: Ended) -> None:
    assert ended.exit_code == 0
    document = json.loads((ended.folder / "batch/batch.json").read_text())
    assert document["status"] == "done"
    assert sorted(job["name"] for job in document["jobs"]) == sorted(OPERATORS)
    assert {path.parent.name for path in ended.folder.glob("batch/runs/*/run.json")} == set(OPERATORS)
    assert document["results"][0]["correct"] == len(OPERATORS)
    assert not (ended.folder / "batch/earlier").exists()


def test_nothing_that_was_written_is_lost_and_no_ended_run_is_touched_again(ended: Ended) -> None:
    assert ended.faults == []


def test_every_run_began_once_and_no_call_was_answered_twice(ended: Ended) -> None:
    for name in OPERATORS:
        events = read(ended.folder / f"batch/runs/{name}/trajectory.jsonl")
        assert sum(isinstance(event, RunStarted) for event in events) == 1
        answers = Counter((event.turn, event.id) for event in events if isinstance(event, Observation))
        assert set(answers.values()) == {1}


def test_nothing_is_left_running(ended: Ended) -> None:
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert [line for line in lines if str(ended.folder).encode() in line] == []
