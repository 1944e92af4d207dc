"""The command lines of the runs: every setting is said, so that no run decides for itself what another decided else."""

import sys
from collections.abc import Sequence
from pathlib import Path

from cuda_agent.batch.jobs import Job
from cuda_agent.batch.order import rules_of
from cuda_agent.config import Settings

PROGRAM = (sys.executable, "-m", "cuda_agent")
_FLAGS = {"time_limit_s": "--time-limit", "operator_timeout_s": "--operator-timeout"}
_BY_ENVIRONMENT = {"image": "CUDA_AGENT_IMAGE"}


def begin(program: Sequence[str], settings: Settings, job: Job, run: Path) -> tuple[str, ...]:
    """Return the command that begins a job's run."""
    values = {"model": job.model, **rules_of(settings)}
    given = [
        f"{_FLAGS.get(key, '--' + key.replace('_', '-'))}={value}"
        for key, value in values.items()
        if value is not None and key not in _BY_ENVIRONMENT
    ]
    return (*program, "optimize", job.path, f"--run-dir={run}", *given, "--json")


def go_on(program: Sequence[str], run: Path) -> tuple[str, ...]:
    """Return the command that goes on with a run; its settings stand in its folder."""
    return (*program, "resume", str(run), "--json")


def environment(settings: Settings) -> dict[str, str]:
    """Return the settings that have no option of the command line."""
    return {name: str(getattr(settings, key)) for key, name in _BY_ENVIRONMENT.items()}
