"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Literal

import typer

Operator = Annotated[
    Path, typer.Argument(metavar="MODEL.py", help="A file with Model and get_inputs(), or its folder.")
]
Sandbox = Annotated[Literal["auto", "local", "docker"] | None, typer.Option(help="Where commands run. (default: auto)")]
Target = Annotated[Literal["auto", "cpu", "cuda"] | None, typer.Option(help="What kernels are for. (default: auto)")]
Python = Annotated[Path | None, typer.Option(help="The sandbox's Python, with torch. (default: found)")]
Precision = Annotated[
    Literal["tf32", "ieee", "half"] | None,
    typer.Option(help="What both sides may round to. (default: tf32; cpu: ieee)"),
]
Libraries = Annotated[
    Literal["vendor", "own", "any"] | None, typer.Option(help="What a submission may call. (default: vendor)")
]
OutputLifetime = Annotated[
    Literal["held", "next-call"] | None, typer.Option(help="How long an output stays valid. (default: held)")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else there.")]
