"""Where commands run and what kernels are for: the sandbox's Python and the target, chosen before anything starts."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cuda_agent.config import Settings
from cuda_agent.errors import ConfigError
from cuda_agent.sandbox.confinement import Confinement, find_confinement
from cuda_agent.sandbox.environment import sandbox_environment
from cuda_agent.sandbox.python import find_python
from cuda_agent.sandbox.target import choose_target


@dataclass(frozen=True)
class Place:
    """A sandbox to be started."""

    kind: Literal["local", "docker"]
    python: str
    """The interpreter with torch, as a path inside."""
    target: Literal["cpu", "cuda"]
    model_shares_uid: bool
    """The model's commands run under the judge's own uid."""
    choices: tuple[str, ...]
    """A line for the person on each of sandbox and target: what was chosen and why."""
    confinement: Confinement | None = None
    """Of `local`, where this machine can."""


def choose(settings: Settings) -> Place:
    """Find the sandbox's Python and what it can build for.

    Raises:
        ConfigError: the chosen sandbox or target is not there.
    """
    if settings.sandbox == "docker":
        raise ConfigError("The sandbox 'docker' is not part of this version; use --sandbox local.")
    python = find_python(settings.python)
    env = sandbox_environment(python.path, Path("state"), host=os.environ)
    target = choose_target(python, env=env, asked=settings.target)
    found = find_confinement(python.path, env, gpu=target.name == "cuda")
    sandbox = f"sandbox local: Python {python.version} with torch {python.torch} ({_short(python.path)}), {found.why}"
    choices = (sandbox, f"target {target.name}: {target.reason}")
    return Place("local", str(python.path), target.name, True, choices, found.confinement)


def _short(path: Path) -> str:
    """Return the path as one would type it here."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
