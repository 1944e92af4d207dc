from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.agent.fakes import FakeJudge, Heard, Profile, Write, capturing
from tests.unit.agent.loop.stage import Build, Stage

from cuda_agent.llm.scripted import Entry, ScriptedModel
from cuda_agent.loop.agent import Agent
from cuda_agent.loop.calls import Calls
from cuda_agent.loop.keeping import Keeping
from cuda_agent.loop.referee import Referee
from cuda_agent.loop.stop import Limits
from cuda_agent.prompting import Prompts
from cuda_agent.resources import prompts_dir
from cuda_agent.run_dir import RunDir
from cuda_agent.snapshots import Snapshots
from cuda_agent.trajectory import Trajectory
from cuda_agent_judge.report import Report


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
        store = Snapshots(run.snapshots)
        agent = Agent(
            model=model,
            calls=Calls([Write(files), Profile(judge, files), *tools], trajectory),
            referee=referee,
            prompts=Prompts(prompts_dir()),
            trajectory=trajectory,
            keeping=Keeping(capturing(store, files), trajectory),
            limits=bounds,
            time_left=lambda: left[0],
        )
        return Stage(agent, judge, referee, model, heard, run, left, store)

    return make
