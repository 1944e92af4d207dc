from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from tests.unit.agent.debugger.table import Open, Table, TypedLines
from tests.unit.agent.fakes import FakeJudge, FakeSandbox, Heard, Profile, Write

from cuda_agent.config import Settings
from cuda_agent.debugger.console import Console
from cuda_agent.judging import Submission
from cuda_agent.llm.scripted import Entry, ScriptedModel
from cuda_agent.loop.agent import Agent
from cuda_agent.loop.calls import Calls
from cuda_agent.loop.person import Person
from cuda_agent.loop.referee import Referee
from cuda_agent.loop.stop import Limits
from cuda_agent.operators import load
from cuda_agent.prompting import Prompts
from cuda_agent.resources import prompts_dir
from cuda_agent.run_dir import RunDir
from cuda_agent.runs.clock import Clock
from cuda_agent.runs.record import Record
from cuda_agent.runs.session import Session
from cuda_agent.runs.signals import Signals
from cuda_agent.trajectory import Trajectory
from cuda_agent_judge.report import Report

MODEL = Path(__file__).resolve().parents[4] / "examples/diag_matmul/model.py"


@pytest.fixture
def sit(tmp_path: Path) -> Open:
    """Open a run with a scripted model, a judge of lists and a sandbox of real commands in front of a person."""

    def make(
        script: Sequence[Entry],
        verdicts: Sequence[Report] = (),
        finals: Sequence[Report] = (),
        *,
        steps: Sequence[Sequence[Report]] = (),
        tools: Sequence[Any] = (),
        lines: Sequence[str | BaseException] = (),
        editor: Any = None,
        **limits: Any,
    ) -> Table:
        files: dict[str, bytes] = {}
        judge = FakeJudge(verdicts, finals)
        heard = Heard()
        run = RunDir.create(tmp_path / f"run{len(list(tmp_path.iterdir()))}", "op")
        trajectory = Trajectory(run.open_trajectory(), heard)
        signals = Signals()
        clock = Clock(None, signals)
        bounds = Limits(**limits)
        referee = Referee(judge, run, trajectory, finals=bounds.finals)
        model = ScriptedModel(script)
        calls = Calls([Write(files), Profile(judge, files), *tools], trajectory)
        agent = Agent(
            model=model,
            calls=calls,
            referee=referee,
            prompts=Prompts(prompts_dir()),
            trajectory=trajectory,
            read_submission=lambda: Submission(dict(files)),
            limits=bounds,
            time_left=clock.left,
        )
        agent.say("You are helpful.", role="system")
        agent.say("Optimise this.")
        person = Person(agent, calls, referee, trajectory, lambda: Submission(dict(files)))
        settings = Settings(operator=MODEL)
        record = Record(run, load(MODEL), settings, {})
        sandbox = FakeSandbox(tmp_path / f"box{len(list(tmp_path.iterdir()))}")
        queue = [list(some) for some in steps]
        judging = cast(Any, judge)
        judging.new_steps = lambda: queue.pop(0) if queue else []
        session = Session(agent, person, referee, judging, sandbox, settings, run, record, trajectory, signals, clock)
        written: list[str] = []
        typed = TypedLines(lines)
        console = Console(lambda words: typed, written.append, editor)
        desk = console.open(session)
        return Table(desk, console, model, heard, judge, written, typed, files)

    return make
