"""Starts the sandbox of a run and removes it at the end."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cuda_agent.installing import home
from cuda_agent.judging import environment, serve_command
from cuda_agent.runs.kept_state import KeptState, made
from cuda_agent.runs.place import Place
from cuda_agent.runs.scratch import scratch
from cuda_agent.sandbox.local import LocalSandbox
from cuda_agent.sandbox.service import SOCKET_VARIABLE, JudgeService, Served
from cuda_agent_tools.sandbox import Sandbox

SOCKET = "judge.sock"
"""In the state directory of `local`."""


@dataclass(frozen=True)
class Opened:
    """One place, entered as two users where it has two."""

    sandbox: Sandbox
    """For what the model does."""
    trusted: Sandbox
    """For what the host does in there: it owns the state directory and runs the judge."""
    serve_judge: Callable[[], Served | None] = lambda: None
    """Called once the judge's session is there: starts a judge that listens. None where none comes up."""


@contextmanager
def opened(place: Place, *, workspace: Path, state: Path | None = None, writes_cache: bool = False) -> Iterator[Opened]:
    """Start the sandbox for the length of a `with` block; the machine's cache can be read there or written to.

    In `state` the tools' state outlasts the block, where the sandbox is `local`.

    Raises:
        SandboxError: it could not be started.
    """
    if place.kind == "docker":
        from cuda_agent.runs.in_docker import entered  # imports the client library

        with entered(place, workspace=workspace) as (model, trusted, service):
            yield Opened(model, trusted, service.start)
        return
    locks, cache = ([path] if path else [] for path in (place.locks, place.cache))
    kept = [made(state)] if state else []
    with scratch() as folder:
        local = LocalSandbox(
            workspace=workspace,
            state_dir=folder,
            python=Path(place.python),
            extra_env=environment(str(folder))
            | {SOCKET_VARIABLE: f"{folder}/{SOCKET}"}
            | ({"CUDA_VISIBLE_DEVICES": place.gpu} if place.gpu else {}),
            confinement=place.confinement,
            shared=[*locks, *(cache if writes_cache else []), *kept],
            shown=[] if writes_cache else cache,
        )
        command = serve_command(place.python, home(local.state_dir), local.state_dir, local.workspace)
        service = JudgeService(local, command, f"{local.state_dir}/{SOCKET}", restarts=0)
        try:
            with local:
                # In `local` everything runs as the person who started the program.
                yield Opened(KeptState(local, kept[0]) if kept else local, local, service.try_to_start)
        finally:
            service.wait()
