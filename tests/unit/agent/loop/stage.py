"""An agent with everything around it but a real judge and sandbox."""

import dataclasses
from collections.abc import Callable

from tests.unit.agent.fakes import FakeJudge, Heard, call

from cuda_agent.llm.model import ToolCall
from cuda_agent.llm.scripted import ScriptedModel
from cuda_agent.loop.agent import Agent
from cuda_agent.loop.referee import Referee
from cuda_agent.run_dir import RunDir
from cuda_agent.snapshots import Snapshots

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
    store: Snapshots

    def told(self) -> list[str]:
        return [message.content for message in self.agent.messages if message.role == "user"]


Build = Callable[..., Stage]


def write(text: str, identity: str = "w") -> ToolCall:
    return call("Write", identity, text=text)


PROFILED = (write("A"), call("Profile", "p"))
