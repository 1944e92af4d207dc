from typing import Any

import pytest
from tests.unit.agent.batch.rows import row

from cuda_agent.batch.comparing import compare
from cuda_agent.batch.comparison_text import comparison_text
from cuda_agent.batch.results import Category


def test_speedups_are_compared_operator_by_operator() -> None:
    # Speeds differ a hundredfold from operator to operator; B is 10 % ahead on each, which only pairing shows.
    speeds = [1.0, 3.0, 10.0, 30.0, 100.0]
    a = [row(f"op{n}", speed) for n, speed in enumerate(speeds)]
    b = [row(f"op{n}", speed * 1.1) for n, speed in enumerate(speeds)]
    mean = compare(a, b).ratios["compile"].mean
    assert mean is not None
    assert [mean.value, mean.low, mean.high] == pytest.approx([1.1, 1.1, 1.1])


def test_only_what_counts_in_both_is_compared_and_the_rest_is_named() -> None:
    a = [row("both", 2.0), row("a_only", 9.0), row("lost", 2.0), row("changed", 2.0), row("open", 1.0)]
    b = [row("both", 3.0), row("b_only", 9.0), row("lost"), row("changed", 2.0, sha256="other"),
         row("open", category=Category.OPEN)]  # fmt: skip
    found = compare(a, b)
    assert [one.operator for one, _ in found.pairing.pairs] == ["both", "lost"]
    assert found.passed is not None
    assert (found.passed.a, found.passed.b, found.passed.only_a) == (1.0, 0.5, ("lost",))
    assert found.ratios["compile"].operators == 1
    text = comparison_text(found, "one", "two", ["A: rules.", "B: rules."])
    for words in ("Only A has (1): a_only", "Only B has (1): b_only", "for another operator (1): changed",
                  "Not counted in both (1): open (counted / open)", "Only in A have a right kernel (1): lost",
                  "B is ahead (1): both 1.50x"):  # fmt: skip
        assert words in text
    assert text.count("A: rules.\nB: rules.") == 2


def test_what_ended_at_the_hardwares_limit_is_compared_with_nothing_and_named() -> None:
    limit: Any = {"category": Category.AT_LIMIT}
    a = [row("both", 2.0), row("neither", **limit), row("beaten", **limit), row("failed"), row("open", **limit)]
    b = [row("both", 3.0), row("neither", **limit), row("beaten", 1.2), row("failed", **limit),
         row("open", category=Category.OPEN)]  # fmt: skip
    found = compare(a, b)
    assert [one.operator for one, _ in found.pairing.pairs] == ["both"]
    assert found.passed is not None
    assert (found.passed.a, found.passed.b) == (1.0, 1.0)
    text = comparison_text(found, "one", "two", [])
    assert "At the hardware's limit in both (1): neither" in text
    for words in ("beaten (at hardware limit / win)", "failed (no right kernel / at hardware limit)",
                  "open (at hardware limit / open)"):  # fmt: skip
        assert words in text


def test_operators_of_the_same_name_are_paired_by_their_path() -> None:
    a = [row("x", 2.0, key="level1/x.py"), row("x", 3.0, key="level2/x.py", sha256="x2")]
    b = [row("x", 6.0, key="level2/x.py", sha256="x2"), row("x", 2.0, key="level1/x.py")]
    found = compare(a, b)
    assert sorted((one.key, two.key) for one, two in found.pairing.pairs) == [
        ("level1/x.py", "level1/x.py"), ("level2/x.py", "level2/x.py")
    ]  # fmt: skip
    assert found.ratios["compile"].better == (("x", 2.0),)


def test_other_rules_are_said() -> None:
    found = compare([row("x", 2.0)], [row("x", 2.0, rules={"target": "cpu", "precision": "half"})])
    assert found.differing_conditions == {"rules": 1}
    assert "Not the same rules in 1 of them" in comparison_text(found, "one", "two", [])


def test_batches_with_nothing_in_common_are_said_to_be_so() -> None:
    text = comparison_text(compare([row("x", 2.0)], [row("y", 2.0)]), "one", "two", [])
    assert "nothing to compare" in text
    assert "Only A has (1): x" in text
