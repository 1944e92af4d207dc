"""Statistics, scores and verdicts."""

import math
import random

import pytest

from cuda_agent_judge.report import Interval
from cuda_agent_judge.scoring import Apart, Call, Measured, score
from cuda_agent_judge.statistics import inverse, latency, log_ratios, quantile, ratio_interval
from cuda_agent_judge.verdict import Doubts, reason_of, status_of

MS = 1_000_000


def test_quantiles_interpolate() -> None:
    assert quantile([4, 1, 3, 2], 0.5) == 2.5
    assert quantile([1], 0.9) == 1
    with pytest.raises(ValueError, match="no values"):
        quantile([], 0.5)


def test_latencies_are_medians_in_ms() -> None:
    found = latency([MS, 2 * MS, 900 * MS])
    assert (found.median, found.calls) == (2.0, 3)
    assert found.q25 == 1.5


def test_the_interval_holds_the_true_ratio_in_spite_of_outliers() -> None:
    draw = random.Random(1)
    base = [int(MS * draw.gauss(1, 0.01)) for _ in range(60)]
    mine = [int(MS * draw.gauss(0.9, 0.01)) * (50 if i % 20 == 0 else 1) for i in range(60)]
    found = ratio_interval(log_ratios(mine, base), 3)
    assert found.low < found.median < found.high
    assert found.low == pytest.approx(0.9, abs=0.02)
    assert found.high == pytest.approx(0.9, abs=0.02)


def test_a_speedup_is_the_inverse_interval() -> None:
    assert inverse(Interval(0.5, 0.4, 0.8)) == Interval(2.0, 1.25, 2.5)


def test_spans_of_zero_do_not_break_the_ratio() -> None:
    assert log_ratios([0], [MS]) == [-math.log(MS)]


@pytest.mark.parametrize(
    ("ratio", "final", "status"),
    [
        (Interval(0.90, 0.80, 0.99), False, "win"),
        (Interval(0.90, 0.80, 0.99), True, "tie"),
        (Interval(0.90, 0.88, 0.94), True, "win"),
        (Interval(0.95, 0.94, 0.96), False, "tie"),
        (Interval(1.05, 1.04, 1.06), True, "tie"),
        (Interval(1.06, 1.00, 1.10), True, "slower"),
        (Interval(1.00, 0.50, 1.90), True, "inconclusive"),
        (Interval(0.10, 0.05, 0.90), True, "win"),
    ],
)
def test_verdicts(ratio: Interval, final: bool, status: str) -> None:
    assert status_of(ratio, Doubts(ratio.median), final=final) == status
    assert "torch.compile" in reason_of(status, ratio, "compile")


@pytest.mark.parametrize("final", [False, True])
def test_medians_that_the_fastest_calls_do_not_bear_out_say_nothing(final: bool) -> None:
    assert status_of(Interval(0.08, 0.06, 0.5), Doubts(0.99), final=final) == "inconclusive"
    assert status_of(Interval(0.08, 0.06, 0.5), Doubts(0.09), final=final) == "win"
    assert status_of(Interval(3.0, 2.5, 3.6), Doubts(0.9), final=final) == "inconclusive"
    assert status_of(Interval(3.0, 2.5, 3.6), Doubts(1.0), final=final) == "slower"


def test_one_sides_bad_luck_with_the_scheduler_is_no_win() -> None:
    """Half of the baseline's calls wait for a core that another process has."""
    draw = random.Random(2)
    base = [int(MS * draw.gauss(0.4, 0.02)) * (16 if draw.random() < 0.7 else 1) for _ in range(80)]
    mine = [int(MS * draw.gauss(0.4, 0.02)) * (16 if draw.random() < 0.1 else 1) for _ in range(80)]
    found = Measured({"compile": [Call(t, t) for t in base], "submission": [Call(t, t) for t in mine]})
    ratio = ratio_interval(log_ratios(mine, base), 1)
    assert ratio.high < 0.95
    assert status_of(ratio, Doubts(found.fastest("compile")), final=True) == "inconclusive"


def test_where_a_baseline_mostly_waited_for_a_core_its_best_call_speaks_for_it() -> None:
    hindered = [Call(8 * MS, 8 * MS, waited_ns=7 * MS)] * 40 + [Call(MS, MS)]
    mine = [Call(MS, MS)] * 41
    assert Measured({"compile": hindered, "submission": mine}).fastest("compile") == pytest.approx(1.0)
    slow = [Call(8 * MS, 8 * MS)] * 40 + [Call(MS, MS)]
    assert Measured({"compile": slow, "submission": mine}).fastest("compile") == pytest.approx(1 / 8)


def lucky(draw: random.Random, waits: float) -> list[Call]:
    """Calls of 8 ms, each of which stands in line for about so many ms."""
    found = []
    for _ in range(80):
        waited = int(MS * draw.gauss(waits, waits / 8))
        span = int(MS * draw.gauss(8, 0.1)) + waited
        found.append(Call(span, span, waited_ns=waited))
    return found


@pytest.mark.parametrize(
    ("its_ms", "mine_ms", "status"), [(8.0, 0.4, "inconclusive"), (0.4, 8.0, "inconclusive"), (0.4, 0.4, "tie")]
)
def test_one_process_that_always_waits_for_a_core_decides_no_final_verdict(
    its_ms: float, mine_ms: float, status: str
) -> None:
    """Both take 8 ms; the interval is narrow, and the fastest calls say what the medians say."""
    draw = random.Random(3)
    base, mine = lucky(draw, its_ms), lucky(draw, mine_ms)
    found = Measured({"compile": base, "submission": mine})
    ratio = ratio_interval(log_ratios(found.spans()["submission"], found.spans()["compile"]), 1)
    assert status_of(ratio, found.against("compile"), final=True) == status
    if status != "tie":
        assert status_of(ratio, Doubts(found.fastest("compile")), final=True) in ("win", "slower")


def test_a_win_that_waiting_cannot_explain_is_one() -> None:
    draw = random.Random(4)
    base = [Call(c.own_ns * 9, c.claim_ns * 9, waited_ns=c.waited_ns) for c in lucky(draw, 8.0)]
    found = Measured({"compile": base, "submission": lucky(draw, 8.0)})
    ratio = ratio_interval(log_ratios(found.spans()["submission"], found.spans()["compile"]), 1)
    assert found.under_load("compile") is not None
    assert status_of(ratio, found.against("compile"), final=True) == "win"


QUIET = Apart()


def test_a_claim_stands_while_the_judges_clock_agrees() -> None:
    assert score(Call(own_ns=MS + 19_000, claim_ns=MS), QUIET) == MS
    assert score(Call(own_ns=100 * MS + 2 * MS, claim_ns=100 * MS), QUIET) == 100 * MS
    assert score(Call(own_ns=0, claim_ns=MS), QUIET) == MS


def test_a_claim_below_the_judges_clock_loses_to_it() -> None:
    assert score(Call(own_ns=10 * MS, claim_ns=0), QUIET) == 10 * MS
    assert score(Call(own_ns=10 * MS, claim_ns=-5 * MS), QUIET) == 10 * MS


def test_what_the_protocol_typically_costs_is_not_held_against_a_claim() -> None:
    honest = [Call(own_ns=3 * MS, claim_ns=MS)] * 10
    loaded = Measured({"eager": honest, "submission": honest})
    assert loaded.spans() == {"eager": [MS] * 10, "submission": [MS] * 10}
    assert not loaded.disagrees()


def test_forged_claims_are_scored_by_the_judges_clock_however_loaded_the_machine() -> None:
    honest = [Call(own_ns=3 * MS, claim_ns=MS)] * 10
    forged = Measured({"eager": honest, "submission": [Call(own_ns=20 * MS, claim_ns=0)] * 10})
    assert forged.spans()["submission"] == [18 * MS] * 10
    assert forged.disagrees()


def noisy(draw: random.Random, span_ms: float, count: int, claimed: float = 1.0) -> list[Call]:
    """Calls on a loaded machine: a tenth noise in the span, 0.1 ms of protocol that sometimes takes ten times that."""
    calls = []
    for _ in range(count):
        span = span_ms * MS * draw.gauss(1, 0.1)
        cost = 0.1 * MS * draw.expovariate(1) * (10 if draw.random() < 0.2 else 1)
        calls.append(Call(int(span + cost), int(span * claimed)))
    return calls


@pytest.mark.parametrize("claimed", [0.0, 0.85])
def test_noise_gives_a_forged_clock_no_win(claimed: float) -> None:
    """Believed, each of these would win all 40; what is left is what noise alone gives."""
    draw = random.Random(7)
    wins = 0
    for trial in range(40):
        found = Measured({"compile": noisy(draw, 1.0, 60), "submission": noisy(draw, 1.0, 60, claimed)})
        spans = found.spans()
        ratio = ratio_interval(log_ratios(spans["submission"], spans["compile"]), trial)
        wins += status_of(ratio, Doubts(ratio.median), final=True) == "win"
    assert wins <= 3


def test_a_few_forged_claims_among_honest_ones_are_scored_as_they_ran() -> None:
    draw = random.Random(5)
    mine = noisy(draw, 1.0, 60)
    mine[::3] = [Call(call.own_ns, 0) for call in mine[::3]]
    spans = Measured({"compile": noisy(draw, 1.0, 60), "submission": mine}).spans()["submission"]
    assert min(spans) > 0.5 * MS


@pytest.mark.parametrize(("true", "wins"), [(1.0, range(3)), (0.85, range(36, 41))])
def test_the_reference_itself_is_no_win_and_a_true_gain_is_one(true: float, wins: range) -> None:
    draw = random.Random(3)
    found = 0
    for trial in range(40):
        calls = Measured({"compile": noisy(draw, 1.0, 100), "submission": noisy(draw, true, 100)}).spans()
        ratio = ratio_interval(log_ratios(calls["submission"], calls["compile"]), trial)
        found += status_of(ratio, Doubts(ratio.median), final=True) == "win"
    assert found in wins
