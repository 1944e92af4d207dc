"""One run on one operator: the only place that brings a concrete model, sandbox, tools, loop and judge together."""

import math
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cuda_agent.config import Settings
from cuda_agent.errors import CudaAgentError, OperatorError
from cuda_agent.files import DiskError
from cuda_agent.judging import (
    ANALYZE_TIMEOUT_S,
    Judge,
    JudgeTimeout,
    Rules,
    is_submission_file,
    read_submission,
    write_files,
)
from cuda_agent.llm.model import Model
from cuda_agent.loop.agent import Agent
from cuda_agent.loop.calls import Calls
from cuda_agent.loop.referee import Referee
from cuda_agent.loop.stop import Limits, Stop, StopReason
from cuda_agent.operators import Operator, load
from cuda_agent.prompting import Prompts, task_context
from cuda_agent.resources import prompts_dir, tree, workspace_template
from cuda_agent.run_dir import RunDir, refuse_existing
from cuda_agent.runs.limited import LimitedSandbox
from cuda_agent.runs.models import make
from cuda_agent.runs.place import Place, choose
from cuda_agent.runs.record import Record
from cuda_agent.runs.sandboxes import Opened, opened
from cuda_agent.runs.session import Drive, Session, by_itself
from cuda_agent.runs.signals import Signals
from cuda_agent.trajectory import Listener, Notice, RunStarted, StageStarted, Trajectory
from cuda_agent_judge.report import Report
from cuda_agent_tools.bash import Bash
from cuda_agent_tools.glob import Glob
from cuda_agent_tools.multi_edit import MultiEdit
from cuda_agent_tools.sandbox import SandboxError
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
    settings: Settings, *, listener: Listener, model: Model | None = None, drive: Drive = by_itself
) -> Outcome:
    """Run the model on the operator until there is a reason to stop.

    Raises:
        OperatorError: the operator cannot be used; no model was asked.
        ConfigError: a setting is wrong.
        InfrastructureError, SandboxError: the machinery failed; run.json says so too.
    """
    operator = load(settings.operator)
    refuse_existing(settings.run_dir)
    chosen_model = model or make(settings.model)
    place = choose(settings)
    run = RunDir.create(settings.run_dir, operator.name)
    with Signals() as signals:
        try:
            record = Record(
                run, operator, settings, {"sandbox": place.kind, "python": place.python, "target": place.target}
            )
        except DiskError:
            run.remove()
            raise
        work = _Work(settings, operator, place, run, record, signals, listener, drive)
        try:
            stop = work.go(chosen_model)
            record.finish(stop)
        except KeyboardInterrupt:
            signals.shield()
            record.finish(Stop(StopReason.INTERRUPTED, "before the first turn"))
        except OperatorError:
            run.remove()
            raise
        except Exception as error:
            _record_failure(record, error)
            raise
    return Outcome(run.path, record.document, int(record.document["exit_code"]))


def _record_failure(record: Record, error: Exception) -> None:
    expected = isinstance(error, CudaAgentError | SandboxError)
    message = str(error) if expected else "".join(traceback.format_exception(error))
    with suppress(DiskError):  # the error itself is what the person must hear of
        record.fail(message, error.exit_code if isinstance(error, CudaAgentError) else 3)


@dataclass(frozen=True)
class _Work:
    """What one run needs, from the sandbox's start to its end."""

    settings: Settings
    operator: Operator
    place: Place
    run: RunDir
    record: Record
    signals: Signals
    listener: Listener
    drive: Drive

    def go(self, model: Model) -> Stop:
        start = time.monotonic()
        with ExitStack() as stack:
            trajectory = Trajectory(stack.enter_context(self.run.open_trajectory()), self.listener)
            trajectory.add(self._started(model))
            for line in self.place.choices:
                trajectory.add(Notice(0, line))
            trajectory.add(StageStarted(0, "sandbox"))
            place = stack.enter_context(opened(self.place, workspace=self.run.workspace))
            stack.callback(self.signals.shield)
            return self._with_sandbox(model, place, trajectory, start)

    def _started(self, model: Model) -> RunStarted:
        document = self.record.document
        return RunStarted(
            self.operator.name, self.operator.sha256, model.name, document["settings"], document["versions"]
        )

    def _with_sandbox(self, model: Model, place: Opened, trajectory: Trajectory, start: float) -> Stop:
        time_left = self._clock(start)
        sandbox, python = place.sandbox, self.place.python
        judge = Judge(place.trusted, python=python, judge_home=self.place.judge_home)
        rules = Rules.of(self.settings, self.place.target, model_shares_uid=self.place.model_shares_uid)
        judge.install(self.operator, rules)
        place.serve_judge()
        write_files(sandbox, python, self._workspace_files(sandbox.workspace))
        try:
            report = self._screen(judge, trajectory, time_left)
        except JudgeTimeout as error:
            if time_left() > 1.0:
                raise
            return Stop(StopReason.TIME_LIMIT, str(error))
        limits = Limits(max_turns=self.settings.max_turns, polish=self.settings.polish)
        referee = Referee(judge, self.run, trajectory, finals=limits.finals, time_left=time_left)
        limited = LimitedSandbox(sandbox, time_left)
        prompts = Prompts(prompts_dir())
        agent = Agent(
            model=model,
            calls=Calls([Bash(limited), Glob(limited), MultiEdit(limited), TodoWrite()], trajectory),
            referee=referee,
            prompts=prompts,
            trajectory=trajectory,
            read_submission=lambda: read_submission(sandbox, python),
            limits=limits,
            time_left=time_left,
        )
        self._brief(agent, prompts, report, rules, sandbox.workspace)
        session = Session(
            agent, referee, judge, sandbox, self.settings, self.run, self.record, trajectory, self.signals
        )
        try:
            self.drive(session)
        finally:
            self.record.reached(agent.turn, agent.usage, referee.best)
        return agent.stop or Stop(StopReason.INTERRUPTED)

    def _brief(self, agent: Agent, prompts: Prompts, report: Report, rules: Rules, workspace: str) -> None:
        context = task_context(
            self.operator,
            report,
            rules=asdict(rules),
            workspace=workspace,
            max_turns=self.settings.max_turns,
        )
        agent.say(prompts.system(context), role="system")
        agent.say(prompts.task(context))

    def _clock(self, start: float) -> Callable[[], float]:
        limit = self.settings.time_limit_s or math.inf

        def time_left() -> float:
            return 0.0 if self.signals.must_leave else limit - (time.monotonic() - start)

        return time_left

    def _workspace_files(self, workspace: str) -> dict[str, bytes]:
        # The operator's own modules must neither stand in for the workspace's commands nor pass for a submission.
        own = {name: data for name, data in self.operator.files.items() if not is_submission_file(name)}
        files = {**own, **tree(workspace_template())}
        return {f"{workspace}/kernels/": b"", **{f"{workspace}/{name}": data for name, data in files.items()}}

    def _screen(self, judge: Judge, trajectory: Trajectory, time_left: Callable[[], float]) -> Report:
        trajectory.add(StageStarted(0, "analyze"))
        timeout_s = max(1.0, min(ANALYZE_TIMEOUT_S, time_left()))
        report = judge.analyze(timeout_s=timeout_s, on_output=self.listener.on_output)
        if report.status in _UNUSABLE:
            raise OperatorError(f"{str(self.operator.path)!r} cannot be used: {report.reason}")
        self.record.screened(report.environment)
        return report
