"""What whoever drives a run has in hand while it lasts."""

from collections.abc import Callable
from dataclasses import dataclass

from cuda_agent.config import Settings
from cuda_agent.judging import Judge
from cuda_agent.loop.agent import Agent
from cuda_agent.loop.person import Person
from cuda_agent.loop.referee import Referee
from cuda_agent.run_dir import RunDir
from cuda_agent.runs.chair import Chair
from cuda_agent.runs.clock import Clock
from cuda_agent.runs.record import Record
from cuda_agent.runs.signals import Signals
from cuda_agent.trajectory import Trajectory
from cuda_agent.workspace import Workspace
from cuda_agent_tools.background import Jobs
from cuda_agent_tools.sandbox import Sandbox


@dataclass(frozen=True)
class Session:
    """A run whose sandbox stands and whose model was briefed; `agent.catch_up()` settles an interrupted turn."""

    agent: Agent
    chair: Chair
    """Who is asked for the next reply."""
    person: Person
    """What a person may do between its steps."""
    referee: Referee
    judge: Judge
    sandbox: Sandbox
    """Where the model's commands run."""
    background: Jobs
    """The commands that the model left running there."""
    workspace: Workspace
    """Its files, as they are kept and put back."""
    settings: Settings
    run: RunDir
    record: Record
    trajectory: Trajectory
    signals: Signals
    clock: Clock


Drive = Callable[[Session], None]
"""Takes the turns of a run. Afterwards `agent.stop` says why it ended; None means interrupted."""


def by_itself(session: Session) -> None:
    """Let the agent run until there is a reason to stop."""
    session.agent.run()
