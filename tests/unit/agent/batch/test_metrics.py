import math
import random

import pytest
from tests.unit.agent.batch.rows import row

from cuda_agent.batch.metrics import Estimate, bootstrap, metrics, union_s, wilson
from cuda_agent.batch.results import Category


def value(one: Estimate | None) -> float:
    assert one is not None
    return one.value


def test_rates_are_over_the_operators_that_count_and_a_wrong_kernel_is_not_faster() -> None:
    found = metrics([
        row("a", 4.0), row("b", 1.02), row("c", 0.5), row("d"),
        row("e", category=Category.NOT_COUNTED), row("f", category=Category.UNUSABLE),
        row("g", category=Category.INFRASTRUCTURE), row("h", category=Category.OPEN),
    ])  # fmt: skip
    assert (found.operators, found.counted, found.correct) == (8, 4, 3)
    assert value(found.passed) == 0.75
    assert value(found.faster["compile"]) == 0.5
    assert value(found.speedup["compile"]) == pytest.approx((4.0 * 1.02 * 0.5) ** (1 / 3))
    shares = {round(p, 3): value(one) for p, one in found.fast_p["compile"].items()}
    assert shares == {1.0: 0.5, 1.053: 0.25, 1.5: 0.25, 2.0: 0.25}


def test_overall_weighs_the_levels_by_their_operators_as_published() -> None:
    # Published overall numbers come out of published numbers of the levels this way (100, 100 and 50 operators).
    rows = [row(f"a{n}", 2.48, level="1") for n in range(100)]
    rows += [row(f"b{n}", 3.27, level="2") for n in range(100)]
    rows += [row(f"c{n}", 1.80, level="3") for n in range(47)] + [row(f"d{n}", level="3") for n in range(3)]
    assert value(metrics(rows, by_level=True).speedup["compile"]) == pytest.approx(2.60, abs=0.005)
    pooled = math.exp((100 * math.log(2.48) + 100 * math.log(3.27) + 47 * math.log(1.80)) / 247)
    assert value(metrics(rows).speedup["compile"]) == pytest.approx(pooled)


def test_where_compile_cannot_run_an_operator_eager_stands_for_it() -> None:
    found = metrics([row("a", None, 3.0), row("b", 2.0, 8.0)])
    assert value(found.speedup["compile"]) == pytest.approx(math.sqrt(6.0))
    assert value(found.speedup["eager"]) == pytest.approx(math.sqrt(24.0))
    assert found.without_compile == 1


@pytest.mark.parametrize(
    ("successes", "total", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (5, 10, 0.2366, 0.7634), (81, 263, 0.2553, 0.3662)],
)
def test_wilsons_interval_is_that_of_the_literature(successes: int, total: int, low: float, high: float) -> None:
    found = wilson(successes, total)
    assert found is not None
    assert [found.low, found.high] == pytest.approx([low, high], abs=5e-4)


def test_a_bootstrap_interval_covers_as_it_says_and_is_the_same_every_time() -> None:
    draw = random.Random(7)
    covered = 0
    for _ in range(60):
        values = [draw.gauss(0.0, 1.0) for _ in range(40)]
        interval = bootstrap([values], lambda drawn: sum(drawn[0]) / len(drawn[0]))
        assert interval is not None
        covered += interval[0] <= 0.0 <= interval[1]
    assert covered >= 51  # 95 % of 60 is 57; under 51 has a chance of one in a thousand
    assert bootstrap([[1.0, 2.0, 3.0]], lambda drawn: sum(drawn[0])) == bootstrap(
        [[1.0, 2.0, 3.0]], lambda drawn: sum(drawn[0])
    )


def test_nothing_is_said_of_nothing() -> None:
    found = metrics([row("a", category=Category.OPEN)])
    assert (found.passed, found.speedup["compile"], found.fast_p["eager"][2.0]) == (None, None, None)
    one = metrics([row("a", 2.0)]).speedup["compile"]
    assert one is not None
    assert one.value == pytest.approx(2.0)
    assert (one.low, one.high) == (None, None)


def test_an_unknown_cost_is_not_nothing() -> None:
    found = metrics([row("a", 2.0, cost_usd=None), row("b", 2.0, cost_usd=0.5)])
    assert (found.cost_usd, found.cost_unknown) == (0.5, 1)


def test_the_devices_are_busy_for_a_share_of_the_time_in_which_anything_ran() -> None:
    held = {"device_s": 30.0}
    rows = [row("a", 2.0, spans=((0.0, 50.0), (100.0, 150.0)), held=held, gpu="GPU-a"),
            row("b", 2.0, spans=((20.0, 120.0),), held=held, gpu="GPU-b")]  # fmt: skip
    found = metrics(rows)
    assert (found.elapsed_s, found.busy) == (150.0, 0.2)
    assert metrics(rows[:1]).busy == 0.3
    assert metrics([row("c", 2.0)]).busy is None
    assert union_s([(5.0, 6.0), (0.0, 10.0), (9.0, 12.0)]) == 12.0
