"""`cuda-agent optimize MODEL.py`."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from cuda_agent.cli import options
from cuda_agent.cli.terminal import plain


def optimize(
    operator: options.Operator,
    model: Annotated[
        str | None, typer.Option(help="Who writes the kernels: builtin, or scripted:FILE.json. (default: builtin)")
    ] = None,
    sandbox: options.Sandbox = None,
    target: options.Target = None,
    python: options.Python = None,
    run_dir: Annotated[
        Path | None, typer.Option(help="The run's folder, new. (default: runs/<UTC stamp>-<operator>)")
    ] = None,
    max_turns: Annotated[int | None, typer.Option(help="Stop after so many replies. (default: 200)")] = None,
    time_limit_s: Annotated[
        float | None, typer.Option("--time-limit", metavar="SECONDS", help="Stop after so many seconds.")
    ] = None,
    polish: Annotated[int | None, typer.Option(help="So many more turns once the target is reached.")] = None,
    precision: options.Precision = None,
    libraries: options.Libraries = None,
    output_lifetime: options.OutputLifetime = None,
    as_json: options.AsJson = False,
) -> int:
    """Have a model write kernels for one operator until the judge says that they are right and fast."""
    flags = {name: value for name, value in locals().items() if name != "as_json"}  # the options are Settings' fields
    from cuda_agent.cli.progress import Progress  # heavy: only when a run starts
    from cuda_agent.config import key_hint, resolve
    from cuda_agent.runs import single, summary

    settings = resolve(flags, os.environ)
    progress = Progress(to_stderr=as_json)
    if hint := key_hint(settings.model, os.environ):
        progress.line(hint)
    outcome = single.optimize(settings, listener=progress)
    if as_json:
        print(json.dumps({**outcome.document, "run": str(outcome.folder)}, ensure_ascii=False, default=str))
    else:
        print(plain(f"\n{summary.run_text(outcome.document, outcome.folder)}"))
    return outcome.exit_code
