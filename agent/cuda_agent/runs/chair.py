"""Who is asked for the next reply, and what of the conversation that one is sent; another may take over."""

from collections.abc import Mapping
from typing import Any

from cuda_agent.config import Settings
from cuda_agent.llm.model import Model, RemoteModel
from cuda_agent.loop.agent import Agent
from cuda_agent.runs.models import context_of, make
from cuda_agent.trajectory import Notice, Trajectory
from cuda_agent_tools.sandbox import Sandbox


class Chair:
    """The model's place in one run."""

    def __init__(
        self, agent: Agent, settings: Settings, sandbox: Sandbox, trajectory: Trajectory, environ: Mapping[str, str]
    ) -> None:
        self._agent = agent
        self.settings = settings
        """Those of who sits there now; the run's own do not change."""
        self._sandbox = sandbox
        self._trajectory = trajectory
        self._environ = environ

    def seat(self, model: Model) -> None:
        """Have this one asked from now on."""
        self._agent.model = model
        self._agent.context = context_of(model, self.settings, self._sandbox, self._notice)
        if isinstance(model, RemoteModel):
            model.attach(time_left=self._agent.time_left, notify=self._notice)

    def change(self, *, replies: int = 0, **changes: Any) -> None:
        """Seat the model that the settings name with these changes (`model`, `temperature`).

        `replies` is how many it gave in the run already.

        Raises:
            ConfigError: there is none, or its key is missing; who sat there stays.
        """
        settings = self.settings.model_copy(update=changes)
        model = make(settings, self._environ, replies=replies)
        self.settings = settings
        self.seat(model)

    def _notice(self, text: str) -> None:
        self._trajectory.add(Notice(self._agent.turn, text))
