"""Going back and forking while a run is open: the real loop, sandbox and store, a judge that is quick."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.agent.fakes import Heard, call, calls
from tests.unit.agent.quick import OPERATOR, PLACE, QuickJudge

from cuda_agent.config import Settings
from cuda_agent.errors import ConfigError, OperatorError
from cuda_agent.history import read, read_history
from cuda_agent.llm.model import Reply
from cuda_agent.llm.scripted import Entry, Request, ScriptedModel
from cuda_agent.loop.stop import Stop, StopReason
from cuda_agent.operators import load
from cuda_agent.run_dir import RunDir, load_document
from cuda_agent.runs import travel
from cuda_agent.runs.beginning import Beginning
from cuda_agent.runs.record import Record
from cuda_agent.runs.resume import past_of
from cuda_agent.runs.session import Drive, Session, by_itself
from cuda_agent.runs.single import Outcome, carry_out
from cuda_agent.trajectory import Event, Forked, Rewound, RunStarted
from cuda_agent_judge.report import Report

DONE = Reply(text="done")


def version(number: int, *, more: str = ":") -> Reply:
    """Write a version of the submission, and say where the shell is."""
    text = f"printf 'version {number}' > model_new.py; echo {number} >> journal; {more}; echo \"N=$N in $PWD\""
    return calls(call("Bash", f"c{number}", command=text))


@pytest.fixture
def driven(tmp_path: Path) -> Callable[[list[Entry], Drive], RunDir]:
    """Runs a script under this drive."""

    def go(script: list[Entry], drive: Drive) -> RunDir:
        (tmp_path / "op.py").write_text(OPERATOR)
        operator = load(tmp_path / "op.py")
        settings = Settings(operator=operator.path)
        run = RunDir.create(tmp_path / "run", "op")
        with run.open_trajectory() as log:
            run.keep_operator(operator.files)
            record = Record(run, operator, settings, PLACE.described)
            beginning = Beginning(settings, operator, PLACE, run, record, log)
            carry_out(beginning, ScriptedModel(script), Heard(), drive, judge=QuickJudge)
        return run

    return go


def take(session: Session, turns: int) -> list[str]:
    """Take turns; return what their calls answered."""
    said: list[str] = []
    for _ in range(turns):
        turn = session.agent.step()
        said += [one.text for one in turn.observations]
        session.agent.settle(turn)
    return said


def test_going_back_makes_everything_what_it_was(driven: Callable[[list[Entry], Drive], RunDir]) -> None:
    script: list[Entry] = [version(3), DONE, version(5, more="mkdir d; cd d; export N=9"), version(6), version(7)]

    def drive(session: Session) -> None:
        root = Path(session.sandbox.workspace)
        take(session, 2)
        then = session.agent.memory()
        assert session.referee.best is not None
        take(session, 2)
        assert (root / "d").exists()
        assert travel.go_to(session, 2) == ()
        now = session.agent.memory()
        assert (now.turn, now.messages, now.verdicts, now.counts) == (2, then.messages, then.verdicts, then.counts)
        assert len(now.usage) == 4
        assert now.elapsed_s > then.elapsed_s
        assert (root / "model_new.py").read_text() == "version 3"
        assert (root / "journal").read_text() == "3\n"
        assert not (root / "d").exists()
        assert take(session, 1)[0] == f"N=9 in {root}/d"  # the script goes back with the conversation
        session.agent.finish(Stop(StopReason.GAVE_UP, "enough"))

    run = driven(script, drive)
    events = read(run.trajectory)
    assert [event for event in events if isinstance(event, Rewound)] == [Rewound(2, 4)]
    assert travel.turns(run.path) == (0, 1, 2, 3)
    assert (run.best / "model_new.py").read_text() in ("version 3", "version 5")


def test_the_best_that_no_longer_counts_is_kept_aside(driven: Callable[[list[Entry], Drive], RunDir]) -> None:
    def drive(session: Session) -> None:
        take(session, 3)
        best = session.run.best
        travel.go_to(session, 2)
        assert best.exists()
        assert not list(session.run.path.glob("best-until*"))  # it still counts
        take(session, 1)
        travel.go_to(session, 1)
        assert not best.exists()
        session.agent.finish(Stop(StopReason.GAVE_UP, "enough"))

    run = driven([version(3), DONE, version(4), version(5)], drive)
    aside = run.path / "best-until-turn-3"
    assert (aside / "model_new.py").read_text() == "version 3"
    assert json.loads((aside / "report.json").read_text())["status"] in ("win", "tie", "slower")


class Leaving(Heard):
    """Is interrupted when it hears that somebody went back."""

    def on_event(self, event: Event) -> None:
        if isinstance(event, Rewound):
            raise KeyboardInterrupt


def test_the_best_is_kept_aside_before_anybody_can_go_on_without_it(
    driven: Callable[[list[Entry], Drive], RunDir],
) -> None:
    def drive(session: Session) -> None:
        take(session, 2)
        session.trajectory.listener = Leaving()
        travel.go_to(session, 1)

    run = driven([version(3), DONE], drive)
    gone_on(run, ScriptedModel([]), lambda _: None, operator=run.path.parent / "op.py")
    assert not run.best.exists()
    assert (run.path / "best-until-turn-2/model_new.py").read_text() == "version 3"


def test_one_can_go_back_to_the_very_beginning_and_in_the_middle_of_a_turn(
    driven: Callable[[list[Entry], Drive], RunDir],
) -> None:
    def drive(session: Session) -> None:
        take(session, 1)
        session.agent.ask()  # its call is not answered
        travel.go_to(session, 0)
        assert [message.role for message in session.agent.messages] == ["system", "user"]
        assert not (Path(session.sandbox.workspace) / "model_new.py").exists()
        assert take(session, 1)[0].startswith("N= in")
        assert session.agent.turn == 1

    run = driven([version(3), version(4)], drive)
    assert travel.turns(run.path) == (0, 1)


def in_the_background(command: str) -> Reply:
    return calls(call("Bash", "b", command=command, run_in_background=True))


def test_whoever_goes_back_is_told_of_the_background_commands_that_ran_then_and_are_gone(
    driven: Callable[[list[Entry], Drive], RunDir],
) -> None:
    waiting = "echo $$ > waiting; echo here; sleep 1000"

    def drive(session: Session) -> None:
        take(session, 1)
        assert not background_messages(session)
        take(session, 2)
        travel.go_to(session, 2)
        [said] = background_messages(session)
        assert f"\n- job 1: `{waiting}`, its output until then is in {session.run.path}/state/jobs/1-" in said
        assert "`sleep 2000`" not in said  # of a time that no longer counts
        assert take(session, 1)[0].splitlines()[0] == "gone"
        travel.go_to(session, 3)
        assert background_messages(session) == [said]  # once
        travel.go_to(session, 0)
        assert not background_messages(session)
        session.agent.finish(Stop(StopReason.GAVE_UP, "enough"))

    checks = calls(call("Bash", "look", command="kill -0 $(cat waiting) 2>/dev/null && echo runs || echo gone"))
    later = in_the_background("sleep 2000")
    script: list[Entry] = [
        in_the_background(waiting),
        version(3),
        lambda asked: checks if told(asked) else later,
        checks,
    ]
    driven(script, drive)


def test_whoever_goes_back_to_before_a_resume_still_finds_the_output_of_then(
    driven: Callable[[list[Entry], Drive], RunDir],
) -> None:
    def first(session: Session) -> None:
        take(session, 2)

    def back(session: Session) -> None:
        assert "runs in the background" in take(session, 1)[0]
        travel.go_to(session, 1)
        said = background_messages(session)[-1]
        [line] = [one for one in said.splitlines() if one.startswith("- job 1: `echo then; ")]
        log = line.partition("its output until then is in ")[2]
        assert session.sandbox.read(log) == b"then\n"
        session.agent.finish(Stop(StopReason.GAVE_UP, "enough"))

    run = driven([in_the_background("echo then; sleep 1000"), version(3)], first)
    outcome = gone_on(
        run, ScriptedModel([in_the_background("echo now; sleep 1000")]), back, operator=run.path.parent / "op.py"
    )
    assert outcome.document["stop"]["reason"] == "gave_up"


def gone_on(
    run: RunDir, model: ScriptedModel, drive: Drive, *, operator: Path, judge: type[QuickJudge] = QuickJudge
) -> Outcome:
    """Go on with a run as another process would."""
    document = load_document(run.path)
    with run.open_trajectory() as log:
        past = past_of(run, log)
        settings = Settings.model_validate(document["settings"])
        record = Record.reopened(run, document, settings, PLACE.described)
        begin = Beginning(settings, load(operator), PLACE, run, record, log, past)
        return carry_out(begin, model, Heard(), drive, judge=judge)


def told(asked: Request) -> bool:
    return any(one.content.startswith("What ran in the background") for one in asked.messages)


def background_messages(session: Session) -> list[str]:
    return [one.content for one in session.agent.messages if one.content.startswith("What ran in the background")]


@pytest.mark.parametrize("turn", [-1, 3, 99])
def test_a_turn_that_is_not_there_is_refused_and_changes_nothing(
    driven: Callable[[list[Entry], Drive], RunDir], turn: int
) -> None:
    def drive(session: Session) -> None:
        take(session, 2)
        before = session.agent.memory().messages
        with pytest.raises(ConfigError, match="turns 0 to 2"):
            travel.go_to(session, turn)
        with pytest.raises(ConfigError, match="turns 0 to 2"):
            travel.fork(session.run.path, turn, trajectory=session.trajectory)
        assert session.agent.memory().messages == before

    run = driven([version(3), version(4)], drive)
    assert [path.name for path in run.path.parent.iterdir() if path.is_dir()] == ["run"]
    assert not any(isinstance(event, Rewound | Forked) for event in read(run.trajectory))


def test_a_fork_of_an_open_run_goes_on_by_itself_and_leaves_the_parent_alone(
    driven: Callable[[list[Entry], Drive], RunDir],
) -> None:
    made: list[Path] = []

    def drive(session: Session) -> None:
        take(session, 2)
        with pytest.raises(ConfigError, match="running in another process"):
            travel.fork(session.run.path, 1)  # as another process would
        for _ in range(2):
            made.append(travel.fork(session.run.path, 1, trajectory=session.trajectory))
        take(session, 1)

    run = driven([version(3), version(4, more="export N=4"), version(5)], drive)
    assert [path.name for path in made] == ["run-fork-1", "run-fork-1-2"]
    forked = [event for event in read(run.trajectory) if isinstance(event, Forked)]
    assert [event.run for event in forked] == list(map(str, made))

    child = RunDir(made[0])
    model = ScriptedModel([version(8), DONE])
    outcome = gone_on(child, model, by_itself, operator=run.path.parent / "op.py")
    assert outcome.document["stop"]["reason"] == "target_reached"
    assert outcome.document["parent"] == {"run": str(run.path), "turn": 1}
    assert (child.workspace / "journal").read_text() == "3\n8\n"
    assert (run.workspace / "journal").read_text() == "3\n4\n5\n"
    first = read(child.trajectory)[0]
    assert isinstance(first, RunStarted)
    assert first.parent == {"run": str(run.path), "turn": 1}
    assert model.requests[0].last.content == f"N= in {child.workspace}"  # said of the parent's workspace, then
    assert read_history(child.trajectory).notices == ()


class Refusing(QuickJudge):
    """Does not take the operator, as it does where this machine became too slow for it."""

    def analyze(self, **_: Any) -> Report:
        return Report(command="analyze", status="timeout", reason="it takes too long")


def test_a_run_that_goes_on_with_an_operator_that_cannot_be_used_any_more_says_so_and_is_kept(
    driven: Callable[[list[Entry], Drive], RunDir],
) -> None:
    run = driven([version(3)], lambda session: None)
    with pytest.raises(OperatorError):
        gone_on(run, ScriptedModel([]), by_itself, operator=run.path.parent / "op.py", judge=Refusing)
    document = load_document(run.path)
    assert (document["status"], document["exit_code"]) == ("failed", 2)
    assert "takes too long" in document["error"]


def test_going_back_that_was_interrupted_leaves_a_mark_for_the_next_start(
    driven: Callable[[list[Entry], Drive], RunDir],
) -> None:
    def drive(session: Session) -> None:
        take(session, 2)
        (session.run.snapshots / "objects").rename(session.run.snapshots / "away")
        with pytest.raises(ConfigError, match="cannot be read"):
            travel.go_to(session, 1)
        (session.run.snapshots / "away").rename(session.run.snapshots / "objects")
        assert session.run.restoring.exists()

    run = driven([version(3), version(4)], drive)
    assert not any(isinstance(event, Rewound) for event in read(run.trajectory))
