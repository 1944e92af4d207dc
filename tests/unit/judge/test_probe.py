"""The throughput probe: what it says of claims, by tables and by whole measurements on a simulated GPU."""

import random
from collections.abc import Callable
from typing import Any, cast

import pytest
from simulated_gpu import US, Side, SimulatedGpu, Unchecked

from cuda_agent_judge import idle, probe, verdict
from cuda_agent_judge.defences import ALL
from cuda_agent_judge.effort import Effort
from cuda_agent_judge.probe import Probe, Run, floor_of, run_of
from cuda_agent_judge.scoring import SUBMISSION, Call, Measured
from cuda_agent_judge.statistics import log_ratios, median, ratio_interval
from cuda_agent_judge.timing import Timer
from cuda_agent_judge.workers import Refused

ROUNDS = Effort(least=60, most=60, budget_s=600.0)
SHORT = {"eager": Side(90 * US, 91 * US), "compile": Side(40 * US, 41 * US), SUBMISSION: Side(40 * US, 41 * US)}
LONGER = {side: Side(10 * its.alone, 9.95 * its.alone) for side, its in SHORT.items()}


@pytest.mark.parametrize(
    ("claim", "own", "enqueue", "calls"),
    [
        (40 * US, 40 * US, 20 * US, 200),
        (400 * US, 400 * US, 20 * US, 20),
        (50_000 * US, 50_000 * US, 20 * US, 2),
        (1, 40 * US, 20 * US, 200),  # whatever is claimed
        (1, 50_000 * US, 20 * US, 4),
        (40 * US, 40 * US, 1_000 * US, 14),  # what a spin covers
        (0, 0, 0, 200),
    ],
)
def test_a_run_has_as_many_calls_as_take_some_milliseconds(claim: int, own: int, enqueue: int, calls: int) -> None:
    assert probe.calls_for(claim, own, enqueue) == calls
    assert probe.LEAST_SPIN_US <= probe.spin_for(calls, enqueue) <= probe.MOST_SPIN_US


def test_a_run_in_which_the_host_was_late_tells_nothing() -> None:
    assert not run_of(4e6, 100, enqueue_ns=3e6, spin_ns=4e6).starved
    assert not run_of(4e6, 100, enqueue_ns=7e6, spin_ns=4e6).starved  # it may have waited for a full line
    assert run_of(4e6, 100, enqueue_ns=7.9e6, spin_ns=4e6).starved
    assert not run_of(4e6, 100, enqueue_ns=4e6).starved  # no spin: the calls' own time, on `cpu`


def runs(*per_call_us: float, starved: int = 0) -> Probe:
    return Probe(100, tuple(Run(us * US, starved=index < starved) for index, us in enumerate(per_call_us)))


@pytest.mark.parametrize(
    ("mine", "its", "floor"),
    [
        (runs(50, 36, 90), runs(37, 36, 60), 36),  # load makes a run longer: the shortest counts
        (runs(50, 48, 90), runs(60, 48, 60), 40),  # the baseline's runs are 1.2 times its claims here
        (runs(50, 48, 90), runs(90, 70, 80), None),  # nor can anything be told where they are much longer
        (runs(9, 36, 37, 38, starved=1), runs(37, 36, 60), 36),
        (runs(9, 36, 37, 38, starved=2), runs(37, 36, 60), None),
        (runs(36, 37), runs(36, 37, 38), None),
    ],
)
def test_the_floor_is_what_the_shortest_run_says_by_the_baselines_measure(
    mine: Probe, its: Probe, floor: float | None
) -> None:
    found = floor_of(mine, its, 40 * US)
    assert found == (None if floor is None else pytest.approx(floor * US))


def measure(gpu: SimulatedGpu, *, calibrated_under_load: bool = True) -> tuple[Measured, Unchecked]:
    """What the Timer makes of a simulated GPU, as in a final verdict."""
    load = gpu.load
    if not calibrated_under_load:
        gpu.load = lambda: 0.0
    its, gpu.sides = gpu.sides, {}
    lie, gpu.lie = gpu.lie, lambda span: span
    untouched = idle.calibrate(Timer(cast(Any, gpu), None, "cuda", ALL).idle_turn)
    gpu.sides, gpu.load, gpu.lie = its, load, lie
    gpu.orders.clear()
    checker = Unchecked()
    timer = Timer(cast(Any, gpu), cast(Any, checker), "cuda", ALL, untouched)
    return timer.measure(["eager", "compile", SUBMISSION], "compile", ROUNDS), checker


def status(found: Measured) -> str:
    spans = found.spans()
    ratio = ratio_interval(log_ratios(spans[SUBMISSION], spans["compile"]), 1)
    return verdict.status_of(ratio, found.against("compile"), final=True)


def sometimes(share: float, ms: float) -> Callable[[], float]:
    draw = random.Random(3)
    return lambda: draw.expovariate(1 / (ms * 1e6)) if draw.random() < share else 0.0


QUIET = sometimes(0, 1)
HONEST: dict[str, dict[str, Any]] = {
    "a quiet machine": {},
    "a spin that lasts longer than it should": {"spin": 1.3},
    "other work in half of the calls": {"load": sometimes(0.5, 1)},
    "other work in most calls": {"load": sometimes(0.7, 1)},
    "much to enqueue": {
        "sides": {
            "eager": Side(90 * US, 80 * US, 300 * US),
            "compile": Side(40 * US, 36 * US, 150 * US),
            SUBMISSION: Side(40 * US, 36 * US, 400 * US),
        }
    },
    "a host that cannot keep up": {"hinders_host": True},
    "clocks that sink under work": {
        "sides": {side: Side(its.alone, 1.2 * its.alone) for side, its in SHORT.items()},
    },
    "long calls": {"sides": {side: Side(100 * its.alone, 99 * its.alone) for side, its in SHORT.items()}},
}


@pytest.mark.parametrize("machine", HONEST.values(), ids=list(HONEST))
def test_an_honest_clock_stands_whatever_the_machine(machine: dict[str, Any]) -> None:
    found, _ = measure(SimulatedGpu(**{"sides": SHORT} | machine))
    mine, claimed = found.spans()[SUBMISSION], [call.claim_ns for call in found.calls[SUBMISSION]]
    assert median(mine) == pytest.approx(median(claimed), rel=0.01)
    assert status(found) == "tie"
    assert not found.is_forged()
    assert found.notes == []


def test_load_that_came_after_calibration_makes_no_honest_submission_slower() -> None:
    """Every call is late by then; the judge's clock alone would say so of the submission only."""
    gpu = SimulatedGpu(SHORT, load=lambda: 400.0 * US)
    found, _ = measure(gpu, calibrated_under_load=False)
    assert status(found) == "inconclusive"
    assert not found.is_forged()
    assert any("measure again" in note for note in found.notes)


def test_a_slower_submission_is_slower_on_a_loaded_machine_too() -> None:
    slow = SHORT | {SUBMISSION: Side(80 * US, 76 * US)}
    for load, under in ((sometimes(0.7, 1), True), (lambda: 400.0 * US, False)):
        assert status(measure(SimulatedGpu(slow, load=load), calibrated_under_load=under)[0]) == "slower"


def mixed(share: float, factor: float) -> Callable[[float], float]:
    draw = random.Random(5)
    return lambda span: span * factor if draw.random() < share else span


FORGED: dict[str, dict[str, Any]] = {
    "within what a single call's clock can show": {"lie": lambda span: 0.9 * span},
    "by half": {"lie": lambda span: 0.52 * span},
    "of two calls in three": {"lie": mixed(0.67, 0.5)},
    "and skipping calls in a row": {
        "lie": lambda span: 0.1 * span,
        "skips_in_a_row": True,
        "sides": LONGER,
    },
    "of most calls, skipping calls in a row": {
        "lie": mixed(0.7, 0.1),
        "skips_in_a_row": True,
        "sides": LONGER,
    },
}


@pytest.mark.parametrize("load", [QUIET, sometimes(0.5, 1)], ids=["quiet", "loaded"])
@pytest.mark.parametrize("forger", FORGED.values(), ids=list(FORGED))
def test_a_forged_clock_gains_no_win(forger: dict[str, Any], load: Callable[[], float]) -> None:
    gpu: dict[str, Any] = {"sides": SHORT, "load": load}
    found, _ = measure(SimulatedGpu(**gpu | forger))
    assert status(found) != "win"


@pytest.mark.parametrize("load", [QUIET, sometimes(0.5, 1)], ids=["quiet", "loaded"])
def test_a_clock_that_says_less_than_half_is_tampering(load: Callable[[], float]) -> None:
    with pytest.raises(Refused, match="clock") as refused:
        measure(SimulatedGpu(LONGER, lie=lambda span: 0.3 * span, load=load))
    assert refused.value.status == "tampering"


MS = 1_000_000


@pytest.mark.parametrize(
    ("own_ms", "row_ms", "base_row_ms", "forged"),
    [
        ([9.0] * 28 + [1.1] * 12, 3.0, 1.2, False),  # load reaches rows and most calls, not the fastest
        ([9.0] * 40, 1.1, 1.1, False),  # all calls, but no row
        ([9.0] * 40, 3.0, 2.0, False),  # the baseline's rows as well
        ([9.0] * 40, 9.0, 1.1, True),
    ],
)
def test_load_is_not_taken_for_a_forged_clock(
    own_ms: list[float], row_ms: float, base_row_ms: float, forged: bool
) -> None:
    """All claims are 1 ms, on `cpu`."""
    found = Measured(
        {
            "compile": [Call(int(1.1 * MS), MS)] * 40,
            SUBMISSION: [Call(int(ms * MS), MS) for ms in own_ms],
        },
        probes={"compile": runs(*[1000 * base_row_ms] * 3), SUBMISSION: runs(*[1000 * row_ms] * 3)},
    )
    assert found.disagrees()
    assert found.is_forged() == forged


def test_each_run_is_checked_and_both_sides_have_it() -> None:
    gpu = SimulatedGpu(SHORT)
    _, checker = measure(gpu)
    rows = [order for order in gpu.orders if order[1] > 1]
    assert {side for side, _ in rows} == {"null", "compile", SUBMISSION}
    mine = [side for side, calls in gpu.orders if side == SUBMISSION]
    in_a_row = [side for side, calls in rows if side == SUBMISSION]
    assert len(in_a_row) == ROUNDS.runs
    # The first call behind a switch between contexts is not looked at; two that warm up are, and need no such call.
    assert checker.landed == (len(mine) - len(in_a_row) - 2 - len(in_a_row)) // 2 + 2 + len(in_a_row)
