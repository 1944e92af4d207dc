"""`cuda-agent optimize MODEL.py`."""

import os
import sys

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
    plain: options.Plain = False,
    as_json: options.AsJson = False,
) -> int:
    """Have a model write kernels for one operator until the judge says that they are right and fast."""
    # The other options are Settings' fields.
    flags = {name: value for name, value in locals().items() if name not in ("as_json", "plain")}
    from cuda_agent.cli.ending import show_outcome  # heavy: only when a run starts
    from cuda_agent.cli.live import watching
    from cuda_agent.config import key_hint, resolve
    from cuda_agent.debugger.offer import drive_for
    from cuda_agent.runs import single

    settings = resolve(flags, os.environ)
    with watching(plain_lines=plain, as_json=as_json, environ=os.environ) as view:
        if hint := key_hint(settings.model, os.environ):
            view.line(hint)
        drive = drive_for(sys.stdin, sys.stdout, os.environ, view, as_json=as_json)
        outcome = single.optimize(settings, listener=view, drive=drive)
    return show_outcome(outcome, as_json=as_json)
