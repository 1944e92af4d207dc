"""Runs of a batch on two GPUs that are not there: real processes that take the machine's real locks."""

import json
import signal
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.batch_throughput import Simulated, carried_out, uuids

TURN = {"model_s": 0.02, "build_s": 0.03, "device_s": 0.05}
PLACES = 2


def case(runs: int, *, dying: int = 0) -> Simulated:
    """Return runs of three turns, of which the first ones die when they have their GPU."""
    plan = {"turns": [TURN] * 3, "build_places": PLACES}
    return Simulated(6, uuids(2), tuple(plan | {"dies": number < dying} for number in range(runs)))


def holders(folder: Path) -> set[int]:
    """The processes that ever had a GPU."""
    lines = [json.loads(line) for line in (folder / "journal").read_text().splitlines()]
    return {line["pid"] for line in lines if line["what"] != "build"}


def at_once(holds: Iterable[dict[str, Any]]) -> int:
    """How many of them there were at the same moment, at most."""
    moments = sorted([(hold["since"], 1) for hold in holds] + [(hold["until"], -1) for hold in holds])
    most = now = 0
    for _, change in moments:
        now += change
        most = max(most, now)
    return most


def test_a_gpu_has_one_run_at_a_time_and_every_run_keeps_to_its_own(tmp_path: Path) -> None:
    found = carried_out(case(12), tmp_path / "case")
    assert [one.exit_code for one in found.ended] == [0] * 12
    by_gpu = {gpu: [hold for hold in found.holds if hold["what"] == gpu] for gpu in uuids(2)}
    assert sum(map(len, by_gpu.values())) == 36
    for holds in by_gpu.values():
        assert holds
        ordered = sorted(holds, key=lambda hold: float(hold["since"]))
        assert all(one["until"] <= following["since"] for one, following in pairwise(ordered))
    users = [{hold["pid"] for hold in holds} for holds in by_gpu.values()]
    assert not users[0] & users[1]
    assert at_once([hold for hold in found.holds if hold["what"] == "build"]) <= PLACES


def test_the_gpu_of_a_run_that_is_killed_goes_to_the_next(tmp_path: Path) -> None:
    found = carried_out(case(6, dying=2), tmp_path / "case")
    assert sorted(one.exit_code for one in found.ended) == [-signal.SIGKILL] * 2 + [0] * 4
    begun, held = holders(tmp_path / "case"), [hold for hold in found.holds if hold["what"] != "build"]
    assert len(begun - {hold["pid"] for hold in held}) == 2
    assert len(held) == 12
