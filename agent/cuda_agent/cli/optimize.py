"""`cuda-agent optimize MODEL.py`."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from cuda_agent.cli import options


def optimize(
    operator: options.Operator,
    model: options.Model = None,
    api_base: options.ApiBase = None,
    api_key_env: options.ApiKeyEnv = None,
    temperature: options.Temperature = None,
    reasoning_effort: options.ReasoningEffort = None,
    context_tokens: options.ContextTokens = None,
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
    plain: options.Plain = False,
    as_json: options.AsJson = False,
) -> int:
    """Have a model write kernels for one operator until the judge says that they are right and fast."""
    flags = {
        name: value for name, value in locals().items() if name not in ("as_json", "plain")
    }  # the options are Settings' fields
    from cuda_agent.cli.live import watching  # heavy: only when a run starts
    from cuda_agent.config import key_hint, resolve
    from cuda_agent.runs import single, summary

    settings = resolve(flags, os.environ)
    with watching(plain_lines=plain, as_json=as_json, environ=os.environ) as view:
        if hint := key_hint(settings.model, os.environ):
            view.line(hint)
        outcome = single.optimize(settings, listener=view)
    if as_json:
        print(json.dumps({**outcome.document, "run": str(outcome.folder)}, ensure_ascii=False, default=str))
    else:
        print(f"\n{summary.run_text(outcome.document, outcome.folder)}")
    return outcome.exit_code
