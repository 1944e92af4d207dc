"""`cuda-agent resume RUN` and `cuda-agent fork RUN TURN`: go on with a run, or with another from its middle."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from cuda_agent.cli import options

Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]
Model = Annotated[str | None, typer.Option(help="Let another model take over. (default: the run's own)")]
MaxTurns = Annotated[int | None, typer.Option(help="Stop after so many replies, those of before included.")]
TimeLimit = Annotated[
    float | None,
    typer.Option("--time-limit", metavar="SECONDS", help="Stop after so many seconds, those of before included."),
]
Polish = Annotated[int | None, typer.Option(help="So many more turns once the target is reached.")]
_NO_SETTINGS = ("run", "turn", "run_dir", "plain", "as_json")
"""Of the arguments below; the others are settings by name."""


def resume(
    run: Run,
    model: Model = None,
    max_turns: MaxTurns = None,
    time_limit_s: TimeLimit = None,
    polish: Polish = None,
    api_base: options.ApiBase = None,
    api_key_env: options.ApiKeyEnv = None,
    temperature: options.Temperature = None,
    reasoning_effort: options.ReasoningEffort = None,
    context_tokens: options.ContextTokens = None,
    gpu: options.Gpu = None,
    python: options.Python = None,
    plain: options.Plain = False,
    as_json: options.AsJson = False,
) -> int:
    """Go on with a run that was interrupted or killed; one that has ended needs a changed limit or another model."""
    changes = {name: value for name, value in locals().items() if name not in _NO_SETTINGS}
    return _go_on(run, changes, plain=plain, as_json=as_json)


def fork(
    run: Run,
    turn: Annotated[
        int, typer.Argument(metavar="TURN", min=0, help="The turn after whose end to go on; 0: the first.")
    ],
    model: Model = None,
    run_dir: Annotated[
        Path | None, typer.Option(help="The new run's folder. (default: beside RUN, RUN-fork-TURN)")
    ] = None,
    max_turns: MaxTurns = None,
    time_limit_s: TimeLimit = None,
    polish: Polish = None,
    api_base: options.ApiBase = None,
    api_key_env: options.ApiKeyEnv = None,
    temperature: options.Temperature = None,
    reasoning_effort: options.ReasoningEffort = None,
    context_tokens: options.ContextTokens = None,
    gpu: options.Gpu = None,
    python: options.Python = None,
    plain: options.Plain = False,
    as_json: options.AsJson = False,
) -> int:
    """Begin a new run with the history of another up to the end of a turn, and go on with it."""
    changes = {name: value for name, value in locals().items() if name not in _NO_SETTINGS}
    from cuda_agent.runs import travel  # heavy: only when a run starts

    return _go_on(travel.fork(run, turn, changes=changes, run_dir=run_dir), {}, plain=plain, as_json=as_json)


def _go_on(run: Path, changes: dict[str, Any], *, plain: bool, as_json: bool) -> int:
    from cuda_agent.cli.ending import show_outcome  # heavy: only when a run starts
    from cuda_agent.cli.live import watching
    from cuda_agent.debugger.offer import drive_for
    from cuda_agent.runs.resume import resume as go_on

    with watching(plain_lines=plain, as_json=as_json, environ=os.environ) as view:
        drive = drive_for(sys.stdin, sys.stdout, os.environ, view, as_json=as_json)
        outcome = go_on(run, changes, listener=view, drive=drive)
    return show_outcome(outcome, as_json=as_json)
