"""Starts the sandbox of a run and removes it at the end."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cuda_agent.judging import environment
from cuda_agent.runs.place import Place
from cuda_agent.runs.scratch import scratch
from cuda_agent.sandbox.local import LocalSandbox
from cuda_agent_tools.sandbox import Sandbox


@dataclass(frozen=True)
class Opened:
    """One place, entered as two users where it has two."""

    sandbox: Sandbox
    """For what the model does."""
    trusted: Sandbox
    """For what the host does in there: it owns the state directory and runs the judge."""
    serve_judge: Callable[[], object] = lambda: None
    """Called once the judge's session is there: where the model is another user, it asks a judge that listens."""


@contextmanager
def opened(place: Place, *, workspace: Path) -> Iterator[Opened]:
    """Start the sandbox for the length of a `with` block.

    Raises:
        SandboxError: it could not be started.
    """
    if place.kind == "docker":
        from cuda_agent.runs.in_docker import entered  # imports the client library

        with entered(place, workspace=workspace) as (model, trusted, service):
            yield Opened(model, trusted, service.start)
        return
    with scratch() as state:
        local = LocalSandbox(
            workspace=workspace,
            state_dir=state,
            python=Path(place.python),
            extra_env={**environment(str(state)), **({"CUDA_VISIBLE_DEVICES": place.gpu} if place.gpu else {})},
            confinement=place.confinement,
            shared=(place.locks,) if place.locks else (),
        )
        with local:
            # In `local` everything runs as the person who started the program.
            yield Opened(local, local)
