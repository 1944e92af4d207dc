"""kill -9 at any moment loses nothing but the step in flight, and the run that goes on ends as it would have."""

import itertools
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import cast

import pytest
from tests.e2e.program import ROOT, SOURCES, environment

from cuda_agent.history import read
from cuda_agent.trajectory import CallStarted, Judged, MessageAdded, Observation, RunStarted, Stopped, TurnEnded

PROGRAM = Path(__file__).with_name("killed_run.py")
KILLS, LEAST_KILLS = 10, 5
"""On a fast machine a run may end before its last kill."""


@pytest.fixture(scope="module", params=[1, 2, 3])
def ended(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    """A run that was killed at random moments, ten at most, and came to its end."""
    run = tmp_path_factory.mktemp("ein lauf") / "run"
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(run), str(request.param), str(KILLS)],
        capture_output=True,
        text=True,
        env=environment(PYTHONPATH=os.pathsep.join([*SOURCES, str(ROOT)])),
    )
    assert done.returncode == 0, done.stderr
    return run, json.loads(done.stdout)


def test_the_run_ends_as_one_that_was_not_killed(ended: tuple[Path, dict[str, object]]) -> None:
    run, told = ended
    assert told["exit_code"] == 0
    assert cast(int, told["kills"]) >= LEAST_KILLS
    document = json.loads((run / "run.json").read_text())
    assert document["stop"]["reason"] == "target_reached"
    assert (document["result"]["status"], document["result"]["final"]) == ("win", True)
    assert (run / "best/model_new.py").read_text() == "version 8"
    assert [event.reason for event in read(run / "trajectory.jsonl") if isinstance(event, Stopped)] == [
        "target_reached"
    ]


def test_no_event_that_was_written_is_lost(ended: tuple[Path, dict[str, object]]) -> None:
    run, told = ended
    assert told["kept"] == [True] * cast(int, told["kills"])
    assert sum(isinstance(event, RunStarted) for event in read(run / "trajectory.jsonl")) == 1


def test_every_call_is_answered_once_and_none_runs_twice(ended: tuple[Path, dict[str, object]]) -> None:
    run, _ = ended
    events = read(run / "trajectory.jsonl")
    made = [call["id"] for event in events if isinstance(event, MessageAdded) for call in event.tool_calls]
    answered = Counter(event.id for event in events if isinstance(event, Observation))
    started = Counter(event.id for event in events if isinstance(event, CallStarted))
    assert answered == Counter(made)
    assert set(started.values()) == {1}
    ran = [line.split()[-1] for line in (run / "workspace/journal").read_text().splitlines()]
    assert len(ran) == len(set(ran))
    sure = [event.id for event in events if isinstance(event, Observation) and not event.is_error]
    assert {f"c{number}" for number in ran} >= {name for name in sure if int(name[1:]) % 2 == 0}


def test_the_shells_variables_went_on_from_call_to_call(ended: tuple[Path, dict[str, object]]) -> None:
    run, _ = ended
    lines = [line.split()[1:] for line in (run / "workspace/journal").read_text().splitlines()]
    events = read(run / "trajectory.jsonl")
    interrupted = {int(event.id[1:]) for event in events if isinstance(event, Observation) and event.is_error}
    compared = 0
    for (*_, before), (*count, _) in itertools.pairwise(lines):
        if not interrupted & {int(before), int(before) + 1}:
            assert count == [before]
            compared += 1
    assert compared


def test_turns_time_and_cost_go_on_counting(ended: tuple[Path, dict[str, object]]) -> None:
    run, _ = ended
    events = read(run / "trajectory.jsonl")
    document = json.loads((run / "run.json").read_text())
    replies = [event for event in events if isinstance(event, MessageAdded) and event.role == "assistant"]
    assert document["usage"]["cost_usd"] == pytest.approx(0.5 * len(replies))
    assert [event.turn for event in replies] == list(range(1, len(replies) + 1))
    elapsed = [event.loop["elapsed_s"] for event in events if isinstance(event, TurnEnded)]
    assert elapsed == sorted(elapsed)
    finals = [event.report["final"] for event in events if isinstance(event, Judged)]
    assert finals.count(True) == 1
