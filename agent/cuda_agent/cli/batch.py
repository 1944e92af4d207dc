"""`cuda-agent batch DIR`."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuda_agent.cli import batch_options as given
from cuda_agent.cli import options

if TYPE_CHECKING:
    from cuda_agent.batch.prepared import Wish
    from cuda_agent.batch.whole import Outcome


def batch(
    source: given.Source,
    batch_dir: given.BatchDir = None,
    models: given.Models = None,
    filters: given.Filters = None,
    levels: given.Levels = None,
    limit: given.Limit = None,
    workers: given.Workers = None,
    gpus: given.Gpus = None,
    engine: given.Engine = "local",
    address: given.Address = None,
    retries: given.Retries = 2,
    rerun: given.Rerun = None,
    provenance: given.Provenance = None,
    hang_after_s: given.HangAfter = 10800,
    model: options.Model = None,
    api_base: options.ApiBase = None,
    api_key_env: options.ApiKeyEnv = None,
    temperature: options.Temperature = None,
    reasoning_effort: options.ReasoningEffort = None,
    context_tokens: options.ContextTokens = None,
    sandbox: options.Sandbox = None,
    target: options.Target = None,
    python: options.Python = None,
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
    """Optimise every operator of a folder; the same command again goes on where it ended."""
    arguments = dict(locals())
    return _show(_carried_out(arguments), as_json=as_json)


def _carried_out(arguments: dict[str, Any]) -> "Outcome":
    from cuda_agent.batch import prepared, whole  # heavy: only when a batch starts
    from cuda_agent.cli.batch_rows import Board
    from cuda_agent.cli.batch_view import watching_batch
    from cuda_agent.runs.signals import Signals

    folder: Path = arguments["batch_dir"] or prepared.default_folder(arguments["source"])
    plain, as_json = arguments["plain"], arguments["as_json"]
    with Signals() as signals, watching_batch(Board(), plain_lines=plain, as_json=as_json, environ=os.environ) as view:
        ready = prepared.prepare(_wish(arguments, folder), os.environ)
        for line in ready.choices:
            view.line(line)
        means = prepared.means(
            ready, folder, signals, retries=arguments["retries"], hang_after_s=arguments["hang_after_s"]
        )
        return whole.carry_out(folder, ready.order, means, ready.engine, view)


def _wish(arguments: dict[str, Any], folder: Path) -> "Wish":
    from cuda_agent.batch.listing import Selection  # heavy: only when a batch starts
    from cuda_agent.batch.prepared import Cluster, Wish
    from cuda_agent.config import Settings

    filters, levels = tuple(arguments["filters"] or ()), tuple(arguments["levels"] or ())
    return Wish(
        source=arguments["source"],
        selection=Selection(filters, levels, arguments["limit"]),
        models=tuple(filter(None, (name.strip() for name in (arguments["models"] or "").split(",")))),
        flags={name: value for name, value in arguments.items() if name in Settings.model_fields},
        rerun=tuple(arguments["rerun"] or ()),
        provenance=arguments["provenance"],
        workers=arguments["workers"],
        gpus=arguments["gpus"],
        cluster=Cluster(arguments["address"], folder) if arguments["engine"] == "ray" else None,
    )


def _show(outcome: "Outcome", *, as_json: bool) -> int:
    from cuda_agent.terminal import plain as shown

    if as_json:
        document = {**outcome.results.document, "batch": str(outcome.folder), "exit_code": outcome.exit_code}
        print(json.dumps(document, ensure_ascii=False, default=str))
    else:
        print(shown(f"\n{outcome.results.summary}\nResults: {outcome.folder / 'results.md'}, results.csv, batch.json"))
    if outcome.ending.message:
        again = "Run the same command again to go on."
        print(f"cuda-agent: {outcome.ending.end}: {shown(outcome.ending.message)} {again}", file=sys.stderr)
    return outcome.exit_code
