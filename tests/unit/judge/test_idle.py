"""On `cuda` a worker's claims are held against calls that did nothing in the same process."""

import random

import pytest

from cuda_agent_judge import idle
from cuda_agent_judge.scoring import SUBMISSION, Call, Measured

SWITCH_NS, TRUE_NS = 400_000, 130_000


def jitter(count: int) -> list[int]:
    draw = random.Random(7)
    return [int(SWITCH_NS + draw.gauss(0, 40_000)) for _ in range(count)]


def measured(claims: list[int]) -> Measured:
    """Calls that truly take TRUE_NS each, with such claims."""
    walls = [TRUE_NS + apart for apart in jitter(len(claims) + 5)[5:]]
    calls = [Call(max(wall - SWITCH_NS, 0), claim, wall) for wall, claim in zip(walls, claims, strict=True)]
    return Measured({SUBMISSION: calls, "compile": [Call(TRUE_NS, TRUE_NS, 0)] * len(claims)}, idle=jitter(12))


def test_honest_claims_stand_beside_a_noisy_clock() -> None:
    found = measured([TRUE_NS] * 60)
    assert set(found.spans()[SUBMISSION]) == {TRUE_NS}
    assert not found.disagrees()


@pytest.mark.parametrize("share", [1.0, 0.6], ids=["always", "in most calls"])
def test_claims_that_lie_give_way_to_the_judges_clock(share: float) -> None:
    lies = int(60 * share)
    found = measured([1_000] * lies + [TRUE_NS] * (60 - lies))
    spans = sorted(found.spans()[SUBMISSION])
    assert spans[30] > TRUE_NS // 2


def test_calibration_makes_a_bounded_number_of_turns() -> None:
    turns = iter(range(1000))
    assert idle.calibrate(lambda: next(turns)) == list(range(idle.TURNS))


def test_claims_that_scatter_do_not_widen_what_is_believed() -> None:
    quiet = [SWITCH_NS] * 12
    assert idle.uncertainty(quiet, 60) == 0
    assert idle.uncertainty(jitter(12), 60) > idle.uncertainty(jitter(12), 6000) > 0
