"""Where commands run and what kernels are for: the sandbox's Python and the target, chosen before anything starts."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cuda_agent.config import Settings
from cuda_agent.errors import ConfigError
from cuda_agent.sandbox.cache import Cache, find_cache
from cuda_agent.sandbox.confinement import Confinement, find_confinement
from cuda_agent.sandbox.docker.layout import CACHE, LOCKS
from cuda_agent.sandbox.environment import sandbox_environment
from cuda_agent.sandbox.gpus import Gpu, chosen, listed
from cuda_agent.sandbox.locks import find_locks
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
    image: str = ""
    """Of `docker`: the id of the image."""
    gpu: str = ""
    """The UUID of the one GPU that is used; "" on `cpu` and where it is left to CUDA."""
    locks: str = ""
    """The directory of the machine's locks; "" where there is none."""
    cache: str = ""
    """What the machine's judges keep: a directory, of `docker` a volume; "" where there is none."""
    judge_home: str | None = None
    """Where the judge stands in there; None where it has to be brought along."""

    @property
    def described(self) -> dict[str, str]:
        """What run.json says of it."""
        gpu = {"gpu": self.gpu} if self.gpu else {}
        return {"sandbox": self.kind, "python": self.python, "target": self.target, **gpu}

    @property
    def locks_inside(self) -> str | None:
        """Where the judge finds the locks."""
        return (LOCKS if self.kind == "docker" else self.locks) if self.locks else None

    def may_fill_cache(self, *, model: bool) -> bool:
        """Say whether the judge may write to the cache: what it judges, and a `model`, are other users then."""
        return self.kind == "docker" or (os.geteuid() == 0 and not model and not self.confinement)

    def cache_inside(self, *, model: bool) -> str | None:
        """Where the judge finds the cache, in a sandbox in which a `model` runs commands or none does.

        Where it may only read the cache, that is so for whatever else is in there, too, or it gets none.
        """
        if not self.cache or not (self.may_fill_cache(model=model) or self.confinement):
            return None
        return CACHE if self.kind == "docker" else self.cache


def choose(settings: Settings) -> Place:
    """Find what can be run here, and what it can build for.

    Raises:
        ConfigError: the chosen sandbox, target or GPU is not there.
        SandboxError: `docker` was asked for and no daemon can be used.
    """
    if settings.gpu is not None and settings.target == "cpu":
        raise ConfigError(f"--gpu {settings.gpu} names a GPU, and the target is cpu; leave one of them out.")
    if settings.gpu is not None:
        settings = settings.model_copy(update={"target": "cuda"})
    if settings.sandbox == "local":
        return _local(settings)
    asked = settings.sandbox == "docker"
    names_python = settings.python is not None or bool(os.environ.get("CUDA_AGENT_PYTHON"))
    if not asked and (names_python or not may_have_docker(os.environ)):
        return _local(settings)
    from cuda_agent.runs.in_docker import choose_docker  # imports the client library

    found = choose_docker(settings, asked=asked)
    return found if isinstance(found, Place) else _local(settings, found)


def may_have_docker(environ: Mapping[str, str]) -> bool:
    """Say whether anything here speaks of a Docker daemon, without asking it."""
    config = Path(environ.get("DOCKER_CONFIG") or Path(environ.get("HOME", "/"), ".docker"), "config.json")
    return bool(environ.get("DOCKER_HOST")) or os.path.exists(config) or os.path.exists("/var/run/docker.sock")


def _local(settings: Settings, note: str = "") -> Place:
    gpu = None if settings.target == "cpu" else chosen(listed(), os.environ, settings.gpu)
    host = {**os.environ, **({"CUDA_VISIBLE_DEVICES": gpu.uuid} if gpu else {})}
    python = find_python(settings.python, host=host)
    env = sandbox_environment(python.path, Path("state"), host=host)
    target = choose_target(python, env=env, asked=settings.target)
    if target.name == "cpu":
        gpu = None
    found = find_confinement(python.path, env, gpu=target.name == "cuda")
    sandbox = f"sandbox local: Python {python.version} with torch {python.torch} ({_short(python.path)}), {found.why}"
    locks = find_locks(os.environ)
    cache = find_cache(os.environ) if found.confinement or os.geteuid() == 0 else Cache("")
    choices = chosen_lines(sandbox + note, f"target {target.name}: {target.reason}", gpu, locks.note, cache.note)
    return Place(
        "local",
        str(python.path),
        target.name,
        True,
        choices,
        found.confinement,
        gpu=gpu.uuid if gpu else "",
        locks=locks.path,
        cache=cache.path,
    )


def chosen_lines(sandbox: str, target: str, gpu: Gpu | None, *notes: str) -> tuple[str, ...]:
    """Return what a person is told of the choices."""
    return (sandbox, f"{target}; {gpu.described}" if gpu else target, *filter(None, notes))


def _short(path: Path) -> str:
    """Return the path as one would type it here."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
