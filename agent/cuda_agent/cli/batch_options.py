"""Options of `cuda-agent batch` alone."""

from pathlib import Path
from typing import Annotated, Literal

import typer

Source = Annotated[
    Path, typer.Argument(metavar="DIR", help="A folder of operators, one operator, or @LIST.txt with a path a line.")
]
BatchDir = Annotated[
    Path | None, typer.Option(help="The batch's folder; the same one goes on. (default: runs/batch-<DIR>)")
]
Models = Annotated[
    str | None, typer.Option(metavar="A,B", help="Models with commas between; each gets every operator.")
]
Filters = Annotated[
    list[str] | None, typer.Option("--filter", metavar="WORD", help="Only names or paths with it; * ? [] work.")
]
Levels = Annotated[list[str] | None, typer.Option("--level", metavar="N", help="Only what is in a folder levelN.")]
Limit = Annotated[int | None, typer.Option(min=1, help="So many operators at most, the first ones.")]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Runs at once. (default: 4 for each GPU; 2 on the target cpu)")
]
Gpus = Annotated[
    str | None, typer.Option(metavar="0,2", help="GPUs to spread over: numbers, UUIDs or all. (default: all)")
]
Engine = Annotated[
    Literal["local", "ray"], typer.Option(help="Run on this machine, or on all machines of a Ray cluster.")
]
Address = Annotated[
    str | None, typer.Option(help="With --engine ray: the cluster's. (default: $RAY_ADDRESS, else the one here)")
]
Retries = Annotated[int, typer.Option(min=0, help="So often a run that the machinery failed is tried again.")]
Rerun = Annotated[
    list[str] | None,
    typer.Option(metavar="WORD", help="Begin ended runs anew, by name or by how they ended (stuck, max_turns, ...)."),
]
Provenance = Annotated[
    str | None, typer.Option("--source", metavar="TEXT", help="Where the operators come from. (default: the commit)")
]
HangAfter = Annotated[
    float, typer.Option("--hang-after", metavar="SECONDS", min=1, help="End a run that wrote nothing for so long.")
]
