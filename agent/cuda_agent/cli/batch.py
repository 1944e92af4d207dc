"""`cuda-agent batch DIR`."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cuda_agent.cli import options

if TYPE_CHECKING:
    from cuda_agent.batch.whole import Outcome

_OWN = frozenset(
    {
        *("source", "models", "batch_dir", "filters", "levels", "limit", "workers", "gpus", "retries", "rerun"),
        *("engine", "address"),
        *("provenance", "hang_after_s", "plain", "as_json"),
    }
)
"""Of the arguments below; the others are settings of each run by name."""


def batch(
    source: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="A folder of operators, one operator, or @LIST.txt with a path a line."),
    ],
    batch_dir: Annotated[
        Path | None, typer.Option(help="The batch's folder; the same one goes on. (default: runs/batch-<DIR>)")
    ] = None,
    models: Annotated[
        str | None, typer.Option(metavar="A,B", help="Models with commas between; each gets every operator.")
    ] = None,
    filters: Annotated[
        list[str] | None, typer.Option("--filter", metavar="WORD", help="Only names or paths with it; * ? [] work.")
    ] = None,
    levels: Annotated[
        list[str] | None, typer.Option("--level", metavar="N", help="Only what is in a folder levelN.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="So many operators at most, the first ones.")] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Runs at once. (default: 4 for each GPU; 2 on the target cpu)")
    ] = None,
    gpus: Annotated[
        str | None, typer.Option(metavar="0,2", help="GPUs to spread over: numbers, UUIDs or all. (default: all)")
    ] = None,
    engine: Annotated[
        Literal["local", "ray"], typer.Option(help="Run on this machine, or on all machines of a Ray cluster.")
    ] = "local",
    address: Annotated[
        str | None, typer.Option(help="With --engine ray: the cluster's. (default: $RAY_ADDRESS, else the one here)")
    ] = None,
    retries: Annotated[int, typer.Option(min=0, help="So often a run that the machinery failed is tried again.")] = 2,
    rerun: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORD", help="Begin ended runs anew, by name or by how they ended (stuck, max_turns, ...)."
        ),
    ] = None,
    provenance: Annotated[
        str | None,
        typer.Option("--source", metavar="TEXT", help="Where the operators come from. (default: the commit)"),
    ] = None,
    hang_after_s: Annotated[
        float, typer.Option("--hang-after", metavar="SECONDS", min=1, help="End a run that wrote nothing for so long.")
    ] = 3600,
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
    plain: options.Plain = False,
    as_json: options.AsJson = False,
) -> int:
    """Optimise every operator of a folder; the same command again goes on where it ended."""
    flags = {name: value for name, value in locals().items() if name not in _OWN}
    from cuda_agent.batch import prepared, whole  # heavy: only when a batch starts
    from cuda_agent.batch.listing import Selection
    from cuda_agent.cli.batch_rows import Board
    from cuda_agent.cli.batch_view import watching_batch
    from cuda_agent.runs.signals import Signals

    folder = batch_dir or prepared.default_folder(source)
    wish = prepared.Wish(
        source=source,
        selection=Selection(tuple(filters or ()), tuple(levels or ()), limit),
        models=tuple(filter(None, (name.strip() for name in (models or "").split(",")))),
        flags=flags,
        rerun=tuple(rerun or ()),
        provenance=provenance,
        workers=workers,
        gpus=gpus,
        cluster=prepared.Cluster(address, folder) if engine == "ray" else None,
    )
    with Signals() as signals, watching_batch(Board(), plain_lines=plain, as_json=as_json, environ=os.environ) as view:
        ready = prepared.prepare(wish, os.environ)
        for line in ready.choices:
            view.line(line)
        means = prepared.means(ready, folder, signals, retries=retries, hang_after_s=hang_after_s)
        outcome = whole.carry_out(folder, ready.order, means, ready.engine, view)
    return _show(outcome, as_json=as_json)


def _show(outcome: "Outcome", *, as_json: bool) -> int:
    from cuda_agent.terminal import plain as shown

    if as_json:
        document = {**outcome.results.document, "batch": str(outcome.folder), "exit_code": outcome.exit_code}
        print(json.dumps(document, ensure_ascii=False, default=str))
    else:
        print(shown(f"\n{outcome.results.summary}\nResults: {outcome.folder / 'results.md'}, results.csv, batch.json"))
    if outcome.ending.message:
        again = "run the same command again to go on."
        print(f"cuda-agent: {outcome.ending.end}: {shown(outcome.ending.message)} Then {again}", file=sys.stderr)
    return outcome.exit_code
