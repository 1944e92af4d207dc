"""Statistics, scores and verdicts."""

import math
import random

import pytest

from cuda_agent_judge.report import Interval
from cuda_agent_judge.statistics import inverse, latency, log_ratios, quantile, ratio_interval
from cuda_agent_judge.timing import Call, Measured, score
from cuda_agent_judge.verdict import reason_of, status_of

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
    assert status_of(ratio, final=final) == status
    assert "torch.compile" in reason_of(status_of(ratio, final=final), ratio, "compile")


def test_a_claim_stands_while_the_judges_clock_agrees() -> None:
    assert score(Call(own_ns=MS + 19_000, claim_ns=MS), 0) == MS
    assert score(Call(own_ns=100 * MS + 2 * MS, claim_ns=100 * MS), 0) == 100 * MS
    assert score(Call(own_ns=0, claim_ns=MS), 0) == MS


def test_a_claim_below_the_judges_clock_loses_to_it() -> None:
    assert score(Call(own_ns=10 * MS, claim_ns=0), 0) == 10 * MS
    assert score(Call(own_ns=10 * MS, claim_ns=-5 * MS), 0) == 10 * MS


def test_a_loaded_machine_is_allowed_for_and_forged_claims_are_not() -> None:
    honest = [Call(own_ns=3 * MS, claim_ns=MS)] * 10
    loaded = Measured({"eager": honest, "submission": honest})
    assert loaded.spans()["submission"] == [MS] * 10
    assert not loaded.disagrees()
    forged = Measured({"eager": honest, "submission": [Call(own_ns=20 * MS, claim_ns=0)] * 10})
    assert forged.spans()["submission"] == [20 * MS] * 10
    assert forged.disagrees()
