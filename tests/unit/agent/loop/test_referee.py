"""Which verdicts are taken, which submission is the best, and what the model is told of them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from tests.unit.agent.fakes import DONE, FakeJudge, call, calls, report
from tests.unit.agent.loop.stage import FAST, PROFILED, UNFAST, Build, Stage, write

from cuda_agent.errors import JudgeError, ModelError
from cuda_agent.judging import Submission
from cuda_agent.llm.model import Reply
from cuda_agent.llm.scripted import Entry
from cuda_agent.loop.stop import Stop, StopReason
from cuda_agent.workspace import submission_of
from cuda_agent_judge.report import Report, Status
from cuda_agent_tools.tool import ToolResult


def test_done_with_a_fast_kernel_is_the_target_after_a_final_win(build: Build) -> None:
    stage = build([calls(write("A")), DONE], [report("win", FAST)], [report("win", 1.9, final=True)])
    assert stage.agent.run() is StopReason.TARGET_REACHED
    assert stage.judge.asked == ["verdict", "final A"]
    assert (stage.run.best / "model_new.py").read_text() == "A"
    assert '"final": true' in (stage.run.best / "report.json").read_text()
    assert stage.heard.of("stopped")[0].reason == "target_reached"


def test_a_passing_profile_of_the_models_own_brings_the_verdict(build: Build) -> None:
    stage = build([calls(*PROFILED)], [report("win", FAST)], [report("win", FAST, final=True)])
    assert stage.agent.run() is StopReason.TARGET_REACHED
    assert stage.agent.turn == 1


def test_the_same_submission_is_judged_once(build: Build) -> None:
    again = calls(call("Profile", "p"))
    judged = report("tie", UNFAST, submission_sha256="A")
    stage = build(
        [calls(*PROFILED), again, DONE, Reply(gave_up="no more")], [judged], [report("tie", UNFAST, final=True)]
    )
    assert stage.agent.run() is StopReason.GAVE_UP
    assert stage.judge.asked == ["verdict", "final A"]


def test_done_too_early_is_told_what_is_missing_and_goes_on(build: Build) -> None:
    wrong = report("incorrect", reason="output 0 is off by 3", details="element [1, 2]")
    stage = build(
        [DONE, calls(write("A")), DONE, calls(write("B")), DONE],
        [wrong, report("win", FAST)],
        [report("win", FAST, final=True)],
    )
    assert stage.agent.run() is StopReason.TARGET_REACHED
    nothing, short = stage.told()
    assert "model_new.py does not exist" in nothing
    assert "incorrect" in short
    assert "off by 3" in short
    assert "element [1, 2]" in short


def test_only_a_final_win_is_the_target(build: Build) -> None:
    stage = build(
        [calls(*PROFILED), calls(write("B"), call("Profile")), Reply(gave_up="tired")],
        [report("win", FAST), report("win", 3.0)],
        [report("tie", UNFAST, final=True, reason="not confirmed"), report("incorrect", final=True)],
    )
    assert stage.agent.run() is StopReason.GAVE_UP
    first, second = stage.told()
    assert "not confirmed" in first
    assert "2 final verdicts are left" in first
    assert "1 final verdict is left" in second
    assert stage.referee.best is not None
    assert stage.referee.best.report.status == "tie"
    assert (stage.run.best / "model_new.py").read_text() == "A"


def test_no_more_finals_than_allowed_are_taken_in_the_loop(build: Build) -> None:
    turns = [calls(write(name), call("Profile", "p")) for name in "ABC"]
    stage = build(
        [*turns, Reply(gave_up="tired")],
        [report("win", speed) for speed in (2.0, 2.1, 1.9)],
        [report("inconclusive", final=True), report("tie", UNFAST, final=True), report("win", 1.8, final=True)],
        finals=2,
    )
    assert stage.agent.run() is StopReason.TARGET_REACHED  # the closing final verdict won
    assert stage.judge.asked == ["verdict", "final A", "verdict", "final B", "verdict", "final C"]


def test_a_refuted_submission_leaves_best(build: Build) -> None:
    stage = build([calls(*PROFILED), Reply(gave_up="tired")], [report("win", FAST)], [report("incorrect", final=True)])
    assert stage.agent.run() is StopReason.GAVE_UP
    assert stage.referee.best is None
    assert not stage.run.best.exists()


def test_a_run_that_ends_short_of_the_target_shows_a_final_number(build: Build) -> None:
    stage = build(
        [calls(*PROFILED), calls(write("B"), call("Profile")), calls(write("C"))],
        [report("tie", 1.03), report("tie", 1.01), report("slower", 0.9)],
        [report("tie", 1.02, final=True)],
        max_turns=3,
    )
    assert stage.agent.run() is StopReason.MAX_TURNS
    assert stage.judge.asked[-1] == "final A"
    assert stage.referee.best is not None
    assert stage.referee.best.report.final


@pytest.mark.parametrize(("speedup", "ending"), [(FAST, StopReason.TARGET_REACHED), (0.5, StopReason.MAX_TURNS)])
def test_what_the_last_turn_leaves_is_judged_though_nobody_profiled_it(
    build: Build, speedup: float, ending: StopReason
) -> None:
    status: Status = "win" if speedup > 1 else "slower"
    script = [calls(write("A")), calls(write("B"))]
    stage = build(script, [report(status, speedup)], [report(status, speedup, final=True)], max_turns=2)
    assert stage.agent.run() is ending
    assert stage.judge.asked == ["verdict", "final B"]
    assert stage.referee.best is not None
    assert stage.referee.best.submission.files["model_new.py"] == b"B"


class Late:
    """A tool that takes so long that only the best's final verdict has time left."""

    name, description = "Late", "Be late."
    parameters: Mapping[str, Any] = {"type": "object"}

    def __init__(self) -> None:
        self.stage: Stage | None = None

    def run(self, arguments: Mapping[str, Any], *, on_output: Callable[[bytes], None] | None = None) -> ToolResult:
        assert self.stage is not None
        self.stage.referee.slowest_s, self.stage.left[0] = 100.0, 150.0
        return ToolResult("late")


def test_a_last_turn_that_ends_late_leaves_the_bests_final_verdict_its_time(build: Build) -> None:
    late = Late()
    script = [calls(*PROFILED), calls(write("B"), call("Late", "l"))]
    stage = build(script, [report("tie", 1.0)], [report("tie", 1.0, final=True)], tools=[late], max_turns=2)
    late.stage = stage
    assert stage.agent.run() is StopReason.TIME_LIMIT
    assert stage.judge.asked == ["verdict", "final A"]


def test_a_last_turn_that_leaves_nothing_new_takes_no_verdict(build: Build) -> None:
    stage = build([calls(*PROFILED), calls(call("Nothing"))], [report("tie", 1.0)], [report("tie", 1.0, final=True)],
                  max_turns=2)  # fmt: skip
    assert stage.agent.run() is StopReason.MAX_TURNS
    assert stage.judge.asked == ["verdict", "final A"]


def test_a_last_turn_without_a_submission_takes_no_verdict(build: Build) -> None:
    stage = build([calls(call("Nothing"))], max_turns=1)
    assert stage.agent.run() is StopReason.MAX_TURNS
    assert stage.judge.asked == []


def test_a_judge_that_fails_at_the_end_leaves_the_loops_number(build: Build) -> None:
    stage = build([calls(*PROFILED), Reply(gave_up="tired")], [report("tie", 1.03)])

    def broken(submission: Submission, *, timeout_s: float, on_output: object = None) -> Report:
        raise JudgeError("out of memory")

    stage.judge.final_verdict = broken  # type: ignore[method-assign]
    assert stage.agent.run() is StopReason.GAVE_UP
    assert stage.referee.best is not None
    assert "out of memory" in stage.heard.of("notice")[0].text


def test_polish_goes_on_after_the_target_and_keeps_the_better_one(build: Build) -> None:
    stage = build(
        [calls(*PROFILED), calls(write("B"), call("Profile")), calls(write("C"))],
        [report("win", 2.0), report("win", 3.0)],
        [report("win", 2.0, final=True), report("win", 2.9, final=True)],
        polish=2,
    )
    assert stage.agent.run() is StopReason.TARGET_REACHED
    assert stage.agent.turn == 3
    assert "2 turns are left" in stage.told()[0]
    assert stage.judge.asked == ["verdict", "final A", "verdict", "final B"]
    assert (stage.run.best / "model_new.py").read_text() == "B"


def test_a_failure_while_polishing_does_not_take_the_target_back(build: Build) -> None:
    stage = build(
        [calls(*PROFILED), ModelError("provider down")],
        [report("win", 2.0)],
        [report("win", 2.0, final=True)],
        polish=5,
    )
    assert stage.agent.run() is StopReason.TARGET_REACHED
    assert stage.agent.stop is not None
    assert "provider down" in stage.agent.stop.detail


def test_verdicts_get_no_more_time_than_is_left(build: Build) -> None:
    stage = build([calls(*PROFILED)], [report("win", FAST)], [report("win", FAST, final=True)])
    stage.left[0] = 77.0
    stage.agent.run()
    assert stage.judge.timeouts == [77.0, 77.0]


def test_snapshots_are_taken_when_the_submission_changed(build: Build) -> None:
    stage = build([calls(write("A")), calls(write("A")), calls(write("B")), Reply(gave_up="x")], [report("incorrect")])
    stage.agent.run()
    taken = stage.heard.of("snapshot")
    assert [one.turn for one in taken] == [1, 3]
    assert dict(submission_of(stage.store, taken[1].snapshot).files) == {"model_new.py": b"B"}


def test_done_with_no_final_verdict_left_ends_the_run_with_the_closing_one(build: Build) -> None:
    stage = build(
        [calls(*PROFILED), calls(write("B")), DONE],
        [report("win", 2.0), report("win", 2.5)],
        [report("inconclusive", final=True), report("win", 2.4, final=True)],
        finals=1,
    )
    assert stage.agent.run() is StopReason.TARGET_REACHED
    assert stage.judge.asked == ["verdict", "final A", "verdict", "final B"]


def test_what_the_first_verdict_noted_of_the_workspace_stands_in_the_final_one_too(build: Build) -> None:
    noted = report("win", FAST, notes=["model.py in the workspace differs", "both"])
    stage = build(
        [calls(write("a")), DONE],
        verdicts=[noted],
        last=[report("win", FAST, final=True, notes=["both", "of the final one"])],
    )
    stage.agent.run()
    best = stage.referee.best
    assert best is not None
    assert best.report.final
    assert best.report.notes == ["both", "of the final one", "model.py in the workspace differs"]


LIMIT = "no kernel can win by 5 %: torch.compile takes 3 ms, and moving the bytes that are needed takes 3 ms"
AT_LIMIT = {"at_limit": LIMIT}
ROOM = {"at_limit": ""}


class Baseline:
    """A tool that makes the judge record a baseline measured on its own."""

    name = "Baseline"
    description = "Measure the baseline."

    def __init__(self, *found: dict[str, Any]) -> None:
        self.parameters: dict[str, Any] = {"type": "object"}
        self._found = list(found)
        self.judge: FakeJudge | None = None

    def run(self, arguments: Mapping[str, Any], *, on_output: Callable[[bytes], None] | None = None) -> ToolResult:
        assert self.judge is not None
        self.judge.profiled.append(Report(command="profile", status="measured", performance=self._found.pop(0)))
        return ToolResult("measured")


def with_baselines(build: Build, *found: dict[str, Any], script: Sequence[Entry], **more: Any) -> Stage:
    tool = Baseline(*found)
    stage = build(script, tools=[tool], **more)
    tool.judge = stage.judge
    return stage


def test_where_the_judge_measured_that_no_kernel_can_win_the_run_ends(build: Build) -> None:
    stage = with_baselines(build, AT_LIMIT, script=[calls(call("Baseline")), calls(write("A"))])
    assert stage.agent.run() is StopReason.AT_HARDWARE_LIMIT
    assert stage.agent.turn == 1
    assert stage.agent.stop == Stop(StopReason.AT_HARDWARE_LIMIT, LIMIT)
    assert StopReason.AT_HARDWARE_LIMIT.exit_code == 1
    assert stage.judge.asked == []


def test_the_best_still_gets_its_final_verdict_then(build: Build) -> None:
    verdict = report("tie", 1.0, performance=AT_LIMIT)
    stage = build([calls(*PROFILED), DONE], [verdict], [report("tie", 1.0, final=True)])
    assert stage.agent.run() is StopReason.AT_HARDWARE_LIMIT
    assert stage.judge.asked == ["verdict", "final A"]


def test_a_baseline_with_room_above_the_floor_ends_nothing(build: Build) -> None:
    stage = with_baselines(build, ROOM, script=[calls(call("Baseline")), Reply(gave_up="x")])
    assert stage.agent.run() is StopReason.GAVE_UP


def test_a_kernel_that_is_faster_refutes_the_limit(build: Build) -> None:
    script = [calls(*PROFILED), calls(call("Baseline")), Reply(gave_up="x")]
    tie, final = report("tie", 1.04), report("tie", 1.04, final=True)
    stage = with_baselines(build, AT_LIMIT, script=script, verdicts=[tie], last=[final])
    assert stage.agent.run() is StopReason.GAVE_UP


def test_a_win_is_a_win_at_the_limit_too(build: Build) -> None:
    win = report("win", FAST, performance=AT_LIMIT)
    stage = build([calls(*PROFILED)], [win], [report("win", FAST, final=True, performance=AT_LIMIT)])
    assert stage.agent.run() is StopReason.TARGET_REACHED


def test_what_bounds_a_kernel_is_told_with_a_verdict_that_does_not_confirm_it(build: Build) -> None:
    bound = {"at_limit": "", "lines": ["submission: memory-bound at 61 % of the measured memory rate"]}
    final = report("tie", UNFAST, final=True, performance=bound)
    stage = build([calls(*PROFILED), Reply(gave_up="x")], [report("win", FAST)], [final])
    stage.agent.run()
    assert "memory-bound at 61 %" in stage.told()[0]
