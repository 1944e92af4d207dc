"""One run on one operator: the only place that brings a concrete model, sandbox, tools, loop and judge together."""

import os
import time
import traceback
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuda_agent.config import Settings
from cuda_agent.errors import CudaAgentError, OperatorError
from cuda_agent.files import DiskError
from cuda_agent.installing import Rules
from cuda_agent.judging import ANALYZE_TIMEOUT_S, Judge, JudgeTimeout
from cuda_agent.llm.model import Model
from cuda_agent.loop.agent import Agent
from cuda_agent.loop.calls import Calls
from cuda_agent.loop.keeping import Keeping
from cuda_agent.loop.person import Person
from cuda_agent.loop.referee import Referee
from cuda_agent.loop.stop import Limits, Stop, StopReason, TimeLeft
from cuda_agent.operators import Operator, load
from cuda_agent.prompting import Prompts
from cuda_agent.resources import prompts_dir
from cuda_agent.run_dir import RunDir, refuse_existing
from cuda_agent.runs.baseline import keep_baseline
from cuda_agent.runs.beginning import Beginning
from cuda_agent.runs.chair import Chair
from cuda_agent.runs.clock import Clock
from cuda_agent.runs.limited import LimitedSandbox
from cuda_agent.runs.models import make
from cuda_agent.runs.opening import Opening, first_events
from cuda_agent.runs.place import choose
from cuda_agent.runs.record import Record
from cuda_agent.runs.sandboxes import Opened, opened
from cuda_agent.runs.session import Drive, Session, by_itself
from cuda_agent.runs.signals import Signals
from cuda_agent.snapshots import Snapshots
from cuda_agent.trajectory import Listener, SandboxStarted, StageStarted, Trajectory
from cuda_agent.workspace import Workspace
from cuda_agent_judge.report import Report
from cuda_agent_tools.bash import Bash
from cuda_agent_tools.glob import Glob
from cuda_agent_tools.multi_edit import MultiEdit
from cuda_agent_tools.sandbox import Sandbox, SandboxError
from cuda_agent_tools.todo_write import TodoWrite

_UNUSABLE = frozenset({"operator_error", "runtime_error", "timeout"})


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    folder: Path
    document: dict[str, Any]
    """What run.json says."""
    exit_code: int


def optimize(
    settings: Settings,
    *,
    listener: Listener,
    model: Model | None = None,
    drive: Drive = by_itself,
    operator: Operator | None = None,
) -> Outcome:
    """Run the model on the operator until there is a reason to stop.

    `model` and `operator` stand in for those that the settings name.

    Raises:
        OperatorError: the operator cannot be used; no model was asked.
        ConfigError: a setting is wrong.
        InfrastructureError, SandboxError: the machinery failed; run.json says so too.
    """
    operator = operator or load(settings.operator)
    refuse_existing(settings.run_dir)
    chosen_model = model or make(settings, os.environ)
    place = choose(settings)
    run = RunDir.create(settings.run_dir, operator.name)
    try:
        with run.open_trajectory() as log:
            run.keep_operator(operator.files)
            record = Record(run, operator, settings, place.described)
            return carry_out(Beginning(settings, operator, place, run, record, log), chosen_model, listener, drive)
    except OperatorError:
        run.remove()
        raise
    except DiskError:
        if not (run.path / "run.json").exists():
            run.remove()
        raise


def carry_out(
    beginning: Beginning, model: Model, listener: Listener, drive: Drive, *, judge: type[Judge] = Judge
) -> Outcome:
    """Take a run from its beginning to its end, and say in run.json how that was.

    Raises:
        OperatorError: the operator cannot be used; run.json says so of a run that goes on.
        InfrastructureError, SandboxError: the machinery failed; run.json says so too.
    """
    record = beginning.record
    with Signals() as signals:
        try:
            record.finish(_Work(beginning, signals, listener, drive, judge).go(model))
        except KeyboardInterrupt:
            signals.shield()
            record.finish(Stop(StopReason.INTERRUPTED, "before the first turn" if beginning.past is None else ""))
        except Exception as error:
            if isinstance(error, OperatorError) and beginning.past is None:
                raise  # nothing worth keeping happened
            _record_failure(record, error)
            raise
    return Outcome(beginning.run.path, record.document, int(record.document["exit_code"]))


def _record_failure(record: Record, error: Exception) -> None:
    expected = isinstance(error, CudaAgentError | SandboxError)
    message = str(error) if expected else "".join(traceback.format_exception(error))
    with suppress(DiskError):  # the error itself is what the person must hear of
        record.fail(message, error.exit_code if isinstance(error, CudaAgentError) else 3)


@dataclass(frozen=True)
class _Work:
    """What one run needs, from the sandbox's start to its end."""

    beginning: Beginning
    signals: Signals
    listener: Listener
    drive: Drive
    judge: type[Judge]

    def go(self, model: Model) -> Stop:
        """Start the sandbox, have the turns taken, and remove it."""
        start = time.monotonic()
        begin, past = self.beginning, self.beginning.past
        with ExitStack() as stack:
            trajectory = Trajectory(begin.log, self.listener, seq=past.events if past else 0)
            for event in first_events(begin, model.name):
                trajectory.add(event)
            snapshots = stack.enter_context(Snapshots(begin.run.snapshots))
            turn = past.memory.turn if past else 0
            spent_s = past.memory.elapsed_s if past else 0.0
            clock = Clock(begin.settings.time_limit_s, self.signals, start=start - spent_s)
            keep_baseline(
                begin.place,
                begin.operator,
                begin.settings,
                time_left=clock.left,
                begun=lambda: trajectory.add(StageStarted(turn, "baseline")),
            )
            trajectory.add(StageStarted(turn, "sandbox"))
            place = stack.enter_context(opened(begin.place, workspace=begin.run.workspace, state=begin.run.state))
            stack.callback(self.signals.shield)
            sandbox = place.sandbox
            trajectory.add(SandboxStarted(turn, begin.place.kind, sandbox.workspace, sandbox.state_dir))
            return self._with_sandbox(model, place, snapshots, trajectory, clock)

    def _with_sandbox(
        self, model: Model, place: Opened, snapshots: Snapshots, trajectory: Trajectory, clock: Clock
    ) -> Stop:
        begin = self.beginning
        judge = self.judge(place.trusted, python=begin.place.python, judge_home=begin.place.judge_home)
        home = begin.place
        rules = Rules.of(
            begin.settings,
            home.target,
            model_shares_uid=home.model_shares_uid,
            locks=home.locks_inside,
            cache=home.cache_inside(model=True),
        )
        judge.install(begin.operator, rules)
        judge.served = place.serve_judge()
        opening = Opening(begin, place.sandbox, snapshots)
        opening.prepare()
        try:
            report = self._screen(judge, trajectory, clock.left)
        except JudgeTimeout as error:
            if clock.left() > 1.0:
                raise
            return Stop(StopReason.TIME_LIMIT, str(error))
        session = self._session(model, place.sandbox, judge, trajectory, clock, opening.workspace)
        opening.brief(session.agent, report, rules)
        try:
            self.drive(session)
        finally:
            with suppress(SandboxError):  # it may be gone, and the records with it
                begin.record.used(judge.held())
            begin.record.reached(session.agent.turn, session.agent.usage, session.referee.best)
        return session.agent.stop or Stop(StopReason.INTERRUPTED)

    def _session(
        self, model: Model, sandbox: Sandbox, judge: Judge, trajectory: Trajectory, clock: Clock, workspace: Workspace
    ) -> Session:
        begin = self.beginning
        limits = Limits(max_turns=begin.settings.max_turns, polish=begin.settings.polish)
        referee = Referee(judge, begin.run, trajectory, finals=limits.finals, time_left=clock.left)
        limited = LimitedSandbox(sandbox, clock.left)
        bash = Bash(limited)
        calls = Calls([bash, Glob(limited), MultiEdit(limited), TodoWrite()], trajectory)
        keeping = Keeping(workspace.capture, trajectory)
        agent = Agent(
            model=model,
            calls=calls,
            referee=referee,
            prompts=Prompts(prompts_dir()),
            trajectory=trajectory,
            keeping=keeping,
            limits=limits,
            time_left=clock.left,
            elapsed=lambda: clock.elapsed_s,
        )
        chair = Chair(agent, begin.settings, limited, trajectory, os.environ)
        chair.seat(model)
        return Session(
            agent=agent,
            chair=chair,
            person=Person(agent, calls, referee, trajectory, keeping),
            referee=referee,
            judge=judge,
            sandbox=sandbox,
            background=bash.jobs,
            workspace=workspace,
            settings=begin.settings,
            run=begin.run,
            record=begin.record,
            trajectory=trajectory,
            signals=self.signals,
            clock=clock,
        )

    def _screen(self, judge: Judge, trajectory: Trajectory, time_left: TimeLeft) -> Report:
        begin = self.beginning
        trajectory.add(StageStarted(begin.past.memory.turn if begin.past else 0, "analyze"))
        timeout_s = max(1.0, min(ANALYZE_TIMEOUT_S, time_left()))
        report = judge.analyze(timeout_s=timeout_s, on_output=self.listener.on_output)
        if report.status in _UNUSABLE:
            raise OperatorError(f"{str(begin.operator.path)!r} cannot be used: {report.reason}")
        begin.record.used(report.held)
        begin.record.screened(report.environment)
        return report
