from collections.abc import Sequence
from typing import Any

import pytest

from cuda_agent.cli.dashboard import ASCII, UNICODE, Dashboard, curve, fitted
from cuda_agent.trajectory import (
    CallStarted,
    Event,
    Judged,
    MessageAdded,
    Observation,
    Resumed,
    RunStarted,
    StageStarted,
)


def judged(submission: str, speedup: float | None, status: str = "win", *, final: bool = False) -> Judged:
    report: dict[str, Any] = {"status": status, "final": final, "submission_sha256": submission}
    return Judged(1, report | ({"speedup": {"compile": {"median": speedup}}} if speedup else {}))


class Watch:
    def __init__(self) -> None:
        self.now = 100.0
        self.dashboard = Dashboard(clock=lambda: self.now)

    def rows(self, *events: Event, width: int = 76) -> Sequence[str]:
        for event in events:
            self.dashboard.on_event(event)
        return self.dashboard.rows(width, UNICODE)

    def best(self, *events: Event) -> list[str]:
        return [row for row in self.rows(*events) if row.startswith("best")]


def called(command: str) -> CallStarted:
    return CallStarted(2, "c", "Bash", {"command": command})


@pytest.mark.parametrize(
    ("event", "stage"),
    [
        (StageStarted(2, "model"), "think"),
        (called("python3 -m utils.analysis"), "analyze"),
        (CallStarted(2, "c", "MultiEdit", {"file_path": "model_new.py"}), "write"),
        (called("bash utils/compile.sh"), "compile"),
        (called("bash utils/compile.sh && python3 -m utils.verification"), "verify"),
        (called("python3 -m utils.profiling --baseline"), "profile"),
        (StageStarted(2, "final verdict"), "final verdict"),
        (StageStarted(2, "baseline"), "baseline"),
        (CallStarted(2, "c", "Nonsense", None), "look"),
    ],
)
def test_the_first_row_names_turn_stage_and_time(event: Event, stage: str) -> None:
    watch = Watch()
    watch.rows(RunStarted("op", "sha", "m", {"max_turns": 9}, {}), StageStarted(2, "model"))
    watch.now += 61
    assert watch.rows(event)[0] == f"turn 2 of 9  {stage}  1:01"


def test_a_run_that_goes_on_names_its_model_and_its_limit() -> None:
    watch = Watch()
    assert watch.rows(Resumed(4, "m", {"max_turns": 9}), StageStarted(4, "sandbox"))[0] == "turn 4 of 9  sandbox  0 s"
    assert watch.dashboard.title == "m"


def test_a_command_shows_its_time_and_what_it_printed_last_until_it_ends() -> None:
    watch = Watch()
    watch.rows(called("sleep 100\nmore"))
    watch.now += 5
    watch.dashboard.on_output(b'one\ntwo\r\x1b[1mthree\x1b[0m\n{"json": 1}\n')
    assert watch.rows()[1:3] == ["▸ 5 s  Bash: sleep 100", "  three"]
    assert len(watch.rows(Observation(2, "c", "Bash", "x", False, 5.0))) == 1
    assert watch.rows(StageStarted(3, "model"))[1] == "▸ 0 s  waiting for the model"


def test_the_best_is_what_still_stands_and_a_final_number_replaces_a_quick_one() -> None:
    watch = Watch()
    assert watch.best(judged("a", None, "incorrect")) == []
    assert watch.best(judged("a", 9.0)) == ["best  9x over torch.compile  ▁"]
    assert watch.best(judged("b", 4.0)) == ["best  9x over torch.compile  ▁▁"]
    assert watch.best(judged("a", 7.0, final=True))[0].startswith("best  7x")
    assert watch.best(judged("a", None, "incorrect", final=True))[0].startswith("best  4x")
    assert watch.best(judged("b", None, "tampering", final=True)) == []


def test_one_unknown_price_makes_the_sum_unknown() -> None:
    watch = Watch()
    usage = {"input_tokens": 900, "output_tokens": 100, "cost_usd": 0.25}
    assert watch.rows(MessageAdded(1, "assistant", "", usage=usage))[-1] == "used  900 tokens in, 100 out, $0.25"
    rows = watch.rows(MessageAdded(2, "assistant", "", usage=usage | {"cost_usd": None}))
    assert rows[-1] == "used  1800 tokens in, 200 out, cost unknown"


def test_the_curve_rises_with_the_logarithm() -> None:
    assert curve([1, 4, 16], UNICODE) == "▁▅█"
    assert curve([1, 4, 16], ASCII) == "_+@"
    assert len(curve([1.0] * 100, UNICODE)) == 24


@pytest.mark.parametrize("text", ["x" * 500, "漢" * 100, "a\x1b[2Jb\x9bc\nd\u202ee\u0301", "", "\ud800"])
def test_whatever_the_text_a_row_is_printable_and_fits(text: str) -> None:
    row = fitted(text, 40)
    assert len(row) <= 40
    assert row.isprintable()
    assert row.isascii()


def test_a_run_that_goes_on_has_its_name_and_its_limit() -> None:
    watch = Watch()
    settings = {"max_turns": 9, "operator": "a/diag/model.py"}
    assert watch.rows(Resumed(4, "m", settings))[0].startswith("turn 4 of 9")
    assert watch.dashboard.title == "diag · m"
