"""`cuda-agent compare A B`."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cuda_agent.cli import options
from cuda_agent.errors import ConfigError

if TYPE_CHECKING:
    from cuda_agent.batch.reporting import Results
    from cuda_agent.batch.results import Row


def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="The folder of a batch.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Another one, or the same with --models.")],
    models: Annotated[
        str | None, typer.Option(metavar="A,B", help="Which model of each, where a batch has several.")
    ] = None,
    as_json: options.AsJson = False,
) -> int:
    """Hold two batches against each other, operator by operator, with 95 % intervals."""
    from cuda_agent.batch import comparing, reporting  # heavy: only when something is compared
    from cuda_agent.batch.comparison_text import comparison_text
    from cuda_agent.terminal import plain

    one, two = reporting.read(a), reporting.read(b)
    model_a, model_b = _models(models, one, two)
    found = comparing.compare(_of(one.rows, model_a), _of(two.rows, model_b))
    names = [f"{folder} ({model})" for folder, model in ((a, model_a), (b, model_b))]
    below = [f"A: {one.conditions}", f"B: {two.conditions}"]
    if as_json:
        print(json.dumps({"a": names[0], "b": names[1], "conditions": below, **asdict(found)}, ensure_ascii=False))
    else:
        print(plain(comparison_text(found, names[0], names[1], below)))
    return 0


def _models(asked: str | None, *batches: "Results") -> tuple[str, str]:
    there = [list(dict.fromkeys(row.model for row in one.rows)) for one in batches]
    named = [name.strip() for name in asked.split(",")] if asked else [names[0] for names in there if len(names) == 1]
    if len(named) == 1 and asked:
        named *= 2
    if len(named) != 2 or any(name not in names for name, names in zip(named, there, strict=True)):
        raise ConfigError(
            f"A has {', '.join(there[0])}, B has {', '.join(there[1])}: name one of each with --models A,B."
        )
    return named[0], named[1]


def _of(rows: "Sequence[Row]", model: str) -> "list[Row]":
    return [row for row in rows if row.model == model]
