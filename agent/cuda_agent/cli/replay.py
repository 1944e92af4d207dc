"""`cuda-agent replay RUN`."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cuda_agent.cli import options
from cuda_agent.terminal import plain

if TYPE_CHECKING:
    from cuda_agent.runs.difference import Kind
    from cuda_agent.runs.replayed import Replayed

MOST = 200
"""Characters of a line that is shown."""
_WORDS: dict["Kind", str] = {
    "same": "answered the same",
    "numbers": "answered the same but for numbers",
    "text": "answered something else",
    "outcome": "ended differently",
    "missing": "not executed: the run ended before",
    "added": "not in the record",
}


def replay(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    speed: Annotated[float, typer.Option(min=0.0, help="How much faster than it happened; 0 shows it at once.")] = 20.0,
    step: Annotated[bool, typer.Option("--step", help="Wait for Enter after each event, shown in full.")] = False,
    execute: Annotated[
        bool, typer.Option("--execute", help="Run its tool calls anew in a sandbox and say where reality differs.")
    ] = False,
    sandbox: options.Sandbox = None,
    python: options.Python = None,
    run_dir: options.RunDir = None,
    as_json: options.AsJson = False,
) -> int:
    """Show a recorded run again; with --execute take its replies as a model's and run them anew.

    Exit codes of --execute: 0 the verdict is of the same class, 1 it is not.
    """
    if execute:
        return _execute(run, {"sandbox": sandbox, "python": python, "run_dir": run_dir}, as_json)
    from cuda_agent.cli import player, transcript  # with the rest: only when something is shown
    from cuda_agent.cli.progress import Progress
    from cuda_agent.history import read_history
    from cuda_agent.run_dir import RunDir
    from cuda_agent.trajectory import as_json_object

    history = read_history(RunDir(run).trajectory)
    if as_json:
        print(json.dumps([as_json_object(event) for event in history.events], ensure_ascii=False))
        return 0
    progress = Progress()
    for notice in history.notices:
        progress.line(notice)
    if not step:
        player.play(history, progress, speed=speed)
        return 0

    def show(number: int) -> bool:
        lines = transcript.lines(history.events[number])
        print("\n".join(lines), end="\n" if lines else "", flush=True)
        return bool(lines)

    player.step_through(history, show, input)
    return 0


def _execute(run: Path, flags: dict[str, object], as_json: bool) -> int:
    import dataclasses  # with the rest: only when something is executed

    from cuda_agent.cli.progress import Progress
    from cuda_agent.runs import replayed

    done = replayed.execute(run, flags, os.environ, listener=Progress(to_stderr=as_json))
    if as_json:
        document = {
            "run": str(done.outcome.folder),
            "same_class": done.same_class,
            "status": {"then": done.status_then, "now": done.status_now},
            "calls": [dataclasses.asdict(one) for one in done.differences],
        }
        print(json.dumps(document, ensure_ascii=False))
    else:
        print("\n".join(_report(done)))
    return 0 if done.same_class else 1


def _report(done: "Replayed") -> list[str]:
    counts = Counter(one.kind for one in done.differences)
    lines = ["", f"Calls:    {len(done.differences)}"]
    lines += [f"          {counts[kind]} {words}" for kind, words in _WORDS.items() if counts[kind]]
    for one in done.differences:
        if one.kind in ("text", "outcome"):
            lines.append(f"[turn {one.turn}] {one.tool} {_WORDS[one.kind]}:")
            lines += [f"    then: {plain(one.then, keep='')[:MOST]}", f"    now:  {plain(one.now, keep='')[:MOST]}"]
    same = "the same class" if done.same_class else "another class"
    lines.append(f"Verdict:  {done.status_now}, then {done.status_then}: {same}")
    return [*lines, f"Run:      {done.outcome.folder}"]
