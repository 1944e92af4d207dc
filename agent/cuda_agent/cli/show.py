"""`cuda-agent show RUN`."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from cuda_agent.cli import options
from cuda_agent.terminal import plain


def show(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run, or of a batch.")],
    transcript: Annotated[bool, typer.Option("--transcript", help="Every message, call and verdict.")] = False,
    as_json: options.AsJson = False,
) -> int:
    """Say how a run ended, with --transcript also what was said and done in it; or how a batch stands."""
    if os.path.exists(run / "batch.json"):  # says no where Path.exists raises: a name too long, a folder not to be read
        return _show_batch(run, as_json=as_json)
    from cuda_agent.cli.transcript import lines  # heavy: only when something is shown
    from cuda_agent.history import read_history
    from cuda_agent.run_dir import RunDir, load_document
    from cuda_agent.runs import summary
    from cuda_agent.trajectory import as_json_object

    document = load_document(run)
    history = read_history(RunDir(run).trajectory) if transcript else None
    events = history.events if history else ()
    for notice in history.notices if history else ():
        print(f"cuda-agent: {notice}", file=sys.stderr)
    if as_json:
        extra = {"events": [as_json_object(event) for event in events]} if transcript else {}
        print(json.dumps({**document, "run": str(run), **extra}, ensure_ascii=False))
        return 0
    for event in events:
        print("\n".join(lines(event)))
    print(plain(summary.run_text(document, run)))
    if told := summary.performance_lines(document.get("result") or {}):
        print(plain("\nWhere the time goes:\n" + "\n".join(told)))
    return 0


def _show_batch(folder: Path, *, as_json: bool) -> int:
    from cuda_agent.batch.reporting import read  # heavy: only when a batch is shown

    results = read(folder)
    if as_json:
        print(json.dumps({**results.document, "batch": str(folder)}, ensure_ascii=False, default=str))
    else:
        standing = f"Status:   {results.document['status']}; a line an operator: {folder / 'results.md'}"
        print(plain(f"{results.summary}\n{standing}"))
    return 0
