"""`cuda-agent debug MODEL.py` and `cuda-agent debug RUN`."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cuda_agent.cli import options

if TYPE_CHECKING:
    from cuda_agent.cli.progress import Progress
    from cuda_agent.debugger.console import Console
    from cuda_agent.runs.single import Outcome


def debug(
    operator: Annotated[
        Path, typer.Argument(metavar="MODEL.py|RUN", help="An operator as for optimize, or the folder of a run.")
    ],
    at: Annotated[
        int | None,
        typer.Option(
            metavar="TURN",
            help="Take RUN back to the end of this turn; what came after no longer counts. (default: where it stands)",
        ),
    ] = None,
    model: options.Model = None,
    api_base: options.ApiBase = None,
    api_key_env: options.ApiKeyEnv = None,
    temperature: options.Temperature = None,
    reasoning_effort: options.ReasoningEffort = None,
    context_tokens: options.ContextTokens = None,
    sandbox: options.Sandbox = None,
    target: options.Target = None,
    gpu: options.Gpu = None,
    python: options.Python = None,
    run_dir: options.RunDir = None,
    max_turns: options.MaxTurns = None,
    time_limit_s: options.TimeLimit = None,
    polish: options.Polish = None,
    precision: options.Precision = None,
    libraries: options.Libraries = None,
    output_lifetime: options.OutputLifetime = None,
    operator_timeout_s: options.OperatorTimeout = None,
    as_json: options.AsJson = False,
) -> int:
    """Step through a run: it stops before every tool call. `help` at its prompt lists the commands."""
    flags = {name: value for name, value in locals().items() if name not in ("as_json", "at", "operator")}
    return _step_through(operator, flags, at=at, as_json=as_json)


def _step_through(operator: Path, flags: dict[str, Any], *, at: int | None, as_json: bool) -> int:
    from cuda_agent.cli.ending import show_outcome  # heavy: only when a run starts
    from cuda_agent.cli.progress import Progress
    from cuda_agent.debugger import screen
    from cuda_agent.debugger.seat import console_for

    progress = Progress(to_stderr=as_json, width=screen.WIDTH)
    console = console_for(sys.stdin, sys.stderr if as_json else sys.stdout, os.environ)
    console.at = at
    outcome = _open(operator, flags, progress, console)
    while (following := console.next) is not None:
        console.write("")
        outcome = _again(following, {}, progress, console)
    return show_outcome(outcome, as_json=as_json)


def _open(place: Path, flags: dict[str, Any], progress: "Progress", console: "Console") -> "Outcome":
    from cuda_agent.config import key_hint, resolve
    from cuda_agent.errors import ConfigError
    from cuda_agent.runs import single, travel

    if os.path.exists(place / "run.json"):
        if console.at is not None:
            travel.check_turn(place, console.at)  # before anything of the run is touched
        return _again(place, flags, progress, console)
    if console.at is not None:
        raise ConfigError(f"--at needs the folder of a run, and {str(place)!r} is none.")
    settings = resolve({**flags, "operator": place}, os.environ)
    if hint := key_hint(settings.model, os.environ):
        progress.line(hint)
    return single.optimize(settings, listener=progress, drive=console.drive)


def _again(run: Path, changes: dict[str, Any], progress: "Progress", console: "Console") -> "Outcome":
    from cuda_agent.runs.resume import resume

    console.follow = None
    return resume(run, changes, listener=progress, drive=console.drive, ended_too=True)
