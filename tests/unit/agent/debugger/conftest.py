import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from tests.unit.agent.debugger.table import Files, Open, Table, TypedLines
from tests.unit.agent.fakes import FakeJudge, FakeSandbox, Heard, Profile, Write, capturing

from cuda_agent.config import Settings
from cuda_agent.debugger.console import Console
from cuda_agent.llm.scripted import Entry, ScriptedModel
from cuda_agent.loop.agent import Agent
from cuda_agent.loop.calls import Calls
from cuda_agent.loop.keeping import Keeping
from cuda_agent.loop.person import Person
from cuda_agent.loop.referee import Referee
from cuda_agent.loop.stop import Limits
from cuda_agent.operators import load
from cuda_agent.prompting import Prompts
from cuda_agent.resources import prompts_dir
from cuda_agent.run_dir import RunDir
from cuda_agent.runs.chair import Chair
from cuda_agent.runs.clock import Clock
from cuda_agent.runs.record import Record
from cuda_agent.runs.session import Session
from cuda_agent.runs.signals import Signals
from cuda_agent.snapshots import Snapshots
from cuda_agent.trajectory import RunStarted, SandboxStarted, Trajectory
from cuda_agent.workspace import Workspace
from cuda_agent_judge.report import Report
from cuda_agent_tools.background import Jobs

MODEL = Path(__file__).resolve().parents[4] / "examples/diag_matmul/model.py"


def keeping_of(
    run: RunDir, sandbox: FakeSandbox, files: Files, trajectory: Trajectory, *, real: bool
) -> tuple[Workspace, Keeping]:
    """The workspace, and who keeps it: by real commands, or from the files in hand."""
    store = Snapshots(run.snapshots)
    workspace = Workspace(sandbox, store, python=sys.executable)
    return workspace, Keeping(workspace.capture if real else capturing(store, files), trajectory)


def feed(judge: FakeJudge, steps: Sequence[Sequence[Report]]) -> None:
    """Let the judge's records hold these reports, some more at each look."""
    queue = [list(some) for some in steps]
    cast(Any, judge).new_steps = lambda: queue.pop(0) if queue else []


def begin(agent: Agent, settings: Settings, sandbox: FakeSandbox, trajectory: Trajectory) -> None:
    """Take the run to where its model is asked first."""
    trajectory.add(RunStarted("op", "0", "scripted", settings.model_dump(mode="json"), {}))
    trajectory.add(SandboxStarted(0, "local", sandbox.workspace, sandbox.state_dir))
    agent.say("You are helpful.", role="system")
    agent.say("Optimise this.")
    agent.briefed()


@dataclass(frozen=True)
class Parts:
    """What a session is made of besides its script."""

    run: RunDir
    sandbox: FakeSandbox
    files: Files
    judge: FakeJudge
    trajectory: Trajectory

    def session(self, model: ScriptedModel, tools: Sequence[Any], limits: Limits, *, real_files: bool) -> Session:
        """Put them together; the model is asked next."""
        signals = Signals()
        clock = Clock(None, signals)
        settings = Settings(operator=MODEL)
        referee = Referee(self.judge, self.run, self.trajectory, finals=limits.finals)
        calls = Calls([Write(self.files), Profile(self.judge, self.files), *tools], self.trajectory)
        workspace, keeping = keeping_of(self.run, self.sandbox, self.files, self.trajectory, real=real_files)
        agent = Agent(
            model=model,
            calls=calls,
            referee=referee,
            prompts=Prompts(prompts_dir()),
            trajectory=self.trajectory,
            keeping=keeping,
            limits=limits,
            time_left=clock.left,
        )
        begin(agent, settings, self.sandbox, self.trajectory)
        return Session(
            agent,
            Chair(agent, settings, self.sandbox, self.trajectory, {}),
            Person(agent, calls, referee, self.trajectory, keeping),
            referee,
            cast(Any, self.judge),
            self.sandbox,
            Jobs(self.sandbox),
            workspace,
            settings,
            self.run,
            Record(self.run, load(MODEL), settings, {}),
            self.trajectory,
            signals,
            clock,
        )


@pytest.fixture
def sit(tmp_path: Path) -> Open:
    """Open a run with a scripted model, a judge of lists and a sandbox of real commands in front of a person.

    `real_files`: the workspace is kept and put back by the commands that a real run uses.
    """

    def make(
        script: Sequence[Entry],
        verdicts: Sequence[Report] = (),
        finals: Sequence[Report] = (),
        *,
        steps: Sequence[Sequence[Report]] = (),
        tools: Sequence[Any] = (),
        lines: Sequence[str | BaseException] = (),
        editor: Any = None,
        real_files: bool = False,
        **limits: Any,
    ) -> Table:
        number = len(list(tmp_path.iterdir()))
        sandbox = FakeSandbox(tmp_path / f"box{number}")
        files = Files(Path(sandbox.workspace))
        judge = FakeJudge(verdicts, finals)
        heard = Heard()
        run = RunDir.create(tmp_path / f"run{number}", "op")
        model = ScriptedModel(script)
        parts = Parts(run, sandbox, files, judge, Trajectory(run.open_trajectory(), heard))
        session = parts.session(model, tools, Limits(**limits), real_files=real_files)
        feed(judge, steps)
        written: list[str] = []
        typed = TypedLines(lines)
        console = Console(lambda words: typed, written.append, editor)
        heard.events.clear()
        return Table(console.open(session), console, model, heard, judge, written, typed, files)

    return make
