"""What is said of verdicts beside an idle and a loaded device, and the exit code that goes with it."""

from typing import Any

import pytest
from bench.neighbour import told
from bench.neighbour_table import ENOUGH, IDLE, LOADED, summary


def line(operator: str, state: str, ms: float = 1.0, ratio: float | None = 1.0, **more: Any) -> dict[str, Any]:
    return {
        "operator": operator,
        "kind": "same",
        "target": "cuda",
        "on": "GPU-a",
        "beside": "GPU-b",
        "commit": "abc",
        "neighbour": state,
        "status": "tie",
        "ratio": ratio and [ratio - 0.01, ratio, ratio + 0.01],
        "ms": {"compile": ms, "submission": ms} if ratio else {},
        "load": 1.0,
        "busy": 0.0 if state == IDLE else 99.0,
    } | ({"tflop_s": 600.0, "gb_s": 1500.0} if state == LOADED else {}) | more  # fmt: skip


def judged(*, ms: float = 1.0, ratio: float = 1.0, pairs: int = 10, **loaded: Any) -> list[dict[str, Any]]:
    """Two operators, `pairs` each; beside a loaded device times are `ms` and ratios `ratio` times as large."""
    found = []
    for name, base in (("a", 1.0), ("b", 30.0)):
        for number in range(pairs):
            noise = 1 + 0.0001 * (number % 3 - 1)
            found.append(line(name, IDLE, base * noise, noise))
            found.append(line(name, LOADED, base * ms * noise, ratio * noise, **loaded))
    return found


def test_a_line_for_each_operator_and_one_for_all() -> None:
    made = summary(judged(ms=1.002, ratio=0.999)).splitlines()
    assert made[0] == "Target `cuda`, judged on GPU-a beside GPU-b, load average 1.0 to 1.0, commits abc."
    assert made[1] == "Verdicts: 40 tie."
    assert "The device beside, loaded: busy 99.0 % of the time (99.0 to 99.0)." in made
    assert "Its load: 600 TFLOP/s of products (600 to 600)." in made
    rows = [row for row in made if row.startswith(("| a |", "| b |", "| **all**"))]
    assert rows[0].startswith("| a | 10 | 10 | 0 | 1 | 1.002 | +0.20 % [")
    assert rows[1].startswith("| b | 10 | 10 | 0 | 30 | 30.06 | +0.20 % [")
    assert rows[2].startswith("| **all** | 20 | 20 | 0 |  |  | +0.20 % [")
    assert "| 1.0000 | 0.9990 | -0.10 % [" in rows[2]
    assert made[-1] == "No verdict is a win, and the medians are within 0.5% of each other."


@pytest.mark.parametrize(
    ("lines", "code", "words"),
    [
        (judged(ms=1.004, ratio=0.996), 0, "within 0.5%"),
        (judged(ms=1.006), 1, "The medians of ms are further apart than 0.5%: +0.60 %"),
        (judged(ms=0.99), 1, "The medians of ms are further apart than 0.5%: -1.00 %"),
        (judged(ratio=0.99), 1, "The medians of ratio are further apart"),
        (judged(status="win"), 1, "20 of 40 verdicts are wins."),
        ([*judged(), line("a", IDLE, status="win")], 1, "1 of 41 verdicts are wins."),
        (judged(busy=40.0), 1, "to be loaded and was busy 40 % of the time"),
        ([one | {"busy": 60.0} for one in judged()], 1, "to be idle and was busy 60 % of the time"),
        ([one | {"busy": None} for one in judged()], 0, "within 0.5%"),
        (judged(pairs=2), 0, f"4 verdicts beside an idle device and 4 beside a loaded one, of {ENOUGH} each"),
        ([line("a", IDLE), line("a", LOADED, ratio=None, status="judge failed")], 0, "no pair of verdicts to compare"),
    ],
)
def test_what_is_wrong_is_a_sentence_and_an_exit_code(
    lines: list[dict[str, Any]], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told(lines) == code
    assert words in capsys.readouterr().out


def test_a_verdict_without_times_takes_its_pair_out_of_the_medians() -> None:
    lines = judged()
    lines[1] = line("a", LOADED, ratio=None, status="inconclusive")
    made = summary(lines)
    assert "Verdicts: 1 inconclusive, 39 tie." in made
    assert "| a | 10 | 10 | 0 | 1 | 1 | +0.00 % [" in made


def test_one_target_does_not_hide_what_is_wrong_with_another(capsys: pytest.CaptureFixture[str]) -> None:
    cpu = [one | {"target": "cpu"} for one in judged(ratio=1.1)]
    assert told([*judged(), *cpu]) == 1
    said = capsys.readouterr().out
    assert said.index("Target `cpu`") < said.index("Target `cuda`")


def test_nothing_judged_is_said() -> None:
    assert summary([]) == "Nothing was judged."
