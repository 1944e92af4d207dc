import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.agent.fakes import DONE, FakeJudge, Heard, Profile, Write, call, calls, report

from cuda_agent.errors import JudgeError, ModelError
from cuda_agent.judging import Submission
from cuda_agent.llm.model import Reply, ToolCall
from cuda_agent.llm.scripted import Entry, Request, ScriptedModel
from cuda_agent.loop.agent import Agent
from cuda_agent.loop.calls import Calls
from cuda_agent.loop.referee import Referee
from cuda_agent.loop.stop import Limits, StopReason
from cuda_agent.prompting import Prompts
from cuda_agent.resources import prompts_dir
from cuda_agent.run_dir import RunDir
from cuda_agent.trajectory import Trajectory
from cuda_agent_judge.report import Report
from cuda_agent_tools.sandbox import SandboxLost

UNFAST = 1.02
FAST = 2.0


@dataclasses.dataclass
class Stage:
    """An agent with everything around it."""

    agent: Agent
    judge: FakeJudge
    referee: Referee
    model: ScriptedModel
    heard: Heard
    run: RunDir
    left: list[float]

    def told(self) -> list[str]:
        return [message.content for message in self.agent.messages if message.role == "user"]


Build = Callable[..., Stage]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    def make(
        script: Sequence[Entry],
        verdicts: Sequence[Report] = (),
        last: Sequence[Report] = (),
        tools: Sequence[Any] = (),
        **limits: Any,
    ) -> Stage:
        files: dict[str, bytes] = {}
        judge = FakeJudge(verdicts, last)
        heard = Heard()
        run = RunDir.create(tmp_path / "run", "op")
        trajectory = Trajectory(run.open_trajectory(), heard)
        left = [1e9]
        bounds = Limits(**limits)
        referee = Referee(judge, run, trajectory, finals=bounds.finals, time_left=lambda: left[0])
        model = ScriptedModel(script)
        agent = Agent(
            model=model,
            calls=Calls([Write(files), Profile(judge, files), *tools], trajectory),
            referee=referee,
            prompts=Prompts(prompts_dir()),
            trajectory=trajectory,
            read_submission=lambda: Submission(dict(files)),
            limits=bounds,
            time_left=lambda: left[0],
        )
        return Stage(agent, judge, referee, model, heard, run, left)

    return make


def write(text: str, identity: str = "w") -> ToolCall:
    return call("Write", identity, text=text)


PROFILED = (write("A"), call("Profile", "p"))


def test_a_turn_answers_each_call_once_and_in_order(build: Build) -> None:
    stage = build(
        [
            calls(
                write("A", "1"),
                call("Nothing", "2"),
                ToolCall("3", "Write", None, "{'a"),
                call("Write", "4"),
                write("impossible", "5"),
                write("B", "1"),
            )
        ]
    )
    turn = stage.agent.step()
    assert [one.id for one in turn.observations] == ["1", "2", "3", "4", "5", "1"]
    assert [one.is_error for one in turn.observations] == [False, True, True, True, True, False]
    texts = [one.text for one in turn.observations]
    assert texts[0] == "wrote A"
    assert "no tool 'Nothing'" in texts[1]
    assert "Write" in texts[1]
    assert "{'a" in texts[2]
    assert "'text'" in texts[3]
    assert texts[4] == "that cannot be written"
    assert [m.tool_call_id for m in stage.agent.messages if m.role == "tool"] == ["1", "2", "3", "4", "5", "1"]
    assert len(stage.heard.of("tool_call")) == len(stage.heard.of("observation")) == 6


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
    assert "1 final verdicts are left" in second
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
        [report("tie", 1.03), report("tie", 1.01)],
        [report("tie", 1.02, final=True)],
        max_turns=3,
    )
    assert stage.agent.run() is StopReason.MAX_TURNS
    assert stage.judge.asked[-1] == "final A"
    assert stage.referee.best is not None
    assert stage.referee.best.report.final


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


def test_three_replies_without_a_call_and_a_change_are_stuck(build: Build) -> None:
    stage = build([DONE, DONE, DONE, DONE])
    assert stage.agent.run() is StopReason.STUCK
    assert stage.agent.turn == 3


def test_a_call_between_them_starts_the_count_again(build: Build) -> None:
    stage = build([DONE, DONE, calls(call("Nothing")), DONE, DONE, DONE])
    assert stage.agent.run() is StopReason.STUCK
    assert stage.agent.turn == 6


def test_the_same_call_with_the_same_result_is_told_then_stuck(build: Build) -> None:
    stage = build([calls(write("A"))] + [calls(call("Nothing", str(n))) for n in range(20)], max_turns=30)
    assert stage.agent.run() is StopReason.STUCK
    assert stage.agent.turn == 1 + Limits().repeats_stuck
    assert sum("same result 4 times" in text for text in stage.told()) == 1


def test_repeats_are_forgotten_when_the_submission_changes(build: Build) -> None:
    script = [calls(call("Nothing", str(n)), write(str(n))) for n in range(12)]
    stage = build(script, max_turns=12)
    assert stage.agent.run() is StopReason.MAX_TURNS


@pytest.mark.parametrize(
    ("entry", "reason", "detail"),
    [
        (Reply(refusal="not that"), StopReason.REFUSED, "not that"),
        (Reply(gave_up="no recipe"), StopReason.GAVE_UP, "no recipe"),
        (ModelError("rate limit"), StopReason.MODEL_ERROR, "rate limit"),
    ],
)
def test_the_models_own_endings(build: Build, entry: Entry, reason: StopReason, detail: str) -> None:
    stage = build([entry])
    assert stage.agent.run() is reason
    assert stage.agent.stop is not None
    assert detail in stage.agent.stop.detail
    assert stage.judge.asked == []


def test_a_reply_cut_off_at_its_length_is_told_so(build: Build) -> None:
    stage = build([Reply(text="I will", finish_reason="length"), Reply(gave_up="x")])
    stage.agent.run()
    assert "cut off" in stage.told()[0]


class Ends:
    """A tool during which something ends."""

    name = "End"
    description = ""

    def __init__(self, action: Callable[[], None]) -> None:
        self.parameters: dict[str, Any] = {"type": "object"}
        self._action = action

    def run(self, arguments: object, *, on_output: object = None) -> Any:
        self._action()
        return Write({}).run({"text": "x"})


def test_a_lost_sandbox_is_never_an_observation(build: Build) -> None:
    def lose() -> None:
        raise SandboxLost("the workspace is gone")

    stage = build([calls(call("End"))], tools=[Ends(lose)])
    assert stage.agent.run() is StopReason.SANDBOX_LOST
    assert stage.heard.of("observation") == []


def test_the_time_limit_is_checked_between_calls_and_each_is_answered(build: Build) -> None:
    left: list[float] = []
    stage = build(
        [calls(call("End", "1"), write("A", "2"), write("B", "3"))], tools=[Ends(lambda: left.__setitem__(0, 0.0))]
    )
    left = stage.left
    assert stage.agent.run() is StopReason.TIME_LIMIT
    answers = stage.heard.of("observation")
    assert [one.id for one in answers] == ["1", "2", "3"]
    assert all("time limit" in one.text for one in answers[1:])


def test_verdicts_get_no_more_time_than_is_left(build: Build) -> None:
    stage = build([calls(*PROFILED)], [report("win", FAST)], [report("win", FAST, final=True)])
    stage.left[0] = 77.0
    stage.agent.run()
    assert stage.judge.timeouts == [77.0, 77.0]


def test_an_interrupt_keeps_the_best_and_gives_it_a_final_verdict(build: Build) -> None:
    def interrupted(request: Request) -> Reply:
        raise KeyboardInterrupt

    stage = build([calls(*PROFILED), interrupted], [report("tie", 1.03)], [report("tie", 1.02, final=True)])
    assert stage.agent.run() is StopReason.INTERRUPTED
    assert stage.judge.asked == ["verdict", "final A"]
    assert any("again" in one.text for one in stage.heard.of("notice"))


def test_a_won_run_that_is_interrupted_while_polishing_says_so_and_keeps_the_win(build: Build) -> None:
    def interrupted(request: Request) -> Reply:
        raise KeyboardInterrupt

    stage = build([calls(*PROFILED), interrupted], [report("win", 2.0)], [report("win", 2.0, final=True)], polish=3)
    assert stage.agent.run() is StopReason.INTERRUPTED
    assert stage.referee.won
    assert (stage.run.best / "report.json").exists()


def test_snapshots_are_taken_when_the_submission_changed(build: Build) -> None:
    stage = build([calls(write("A")), calls(write("A")), calls(write("B")), Reply(gave_up="x")], [report("incorrect")])
    stage.agent.run()
    taken = stage.heard.of("snapshot")
    assert [one.turn for one in taken] == [1, 3]
    assert stage.run.load_snapshot(taken[1].manifest) == {"model_new.py": b"B"}


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
