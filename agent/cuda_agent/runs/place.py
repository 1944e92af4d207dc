"""Where commands run and what kernels are for: the sandbox's Python and the target, chosen before anything starts."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cuda_agent.config import Settings
from cuda_agent.errors import ConfigError


@dataclass(frozen=True)
class Place:
    """A sandbox to be started."""

    python: Path
    target: Literal["cpu", "cuda"]
    why: str = ""
    """One line for the person: what `auto` chose and why."""


def choose(settings: Settings) -> Place:
    """Find the sandbox's Python and what it can build for.

    Raises:
        ConfigError: the chosen sandbox or target is not there.
    """
    if settings.sandbox == "docker":
        raise ConfigError("The sandbox 'docker' is not part of this version; use --sandbox local.")
    raise NotImplementedError
