"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Literal

import typer

Operator = Annotated[
    Path, typer.Argument(metavar="MODEL.py", help="A file with Model and get_inputs(), or its folder.")
]
Sandbox = Annotated[
    Literal["auto", "local", "docker"] | None,
    typer.Option(
        help="Where commands run: in a container, or as processes of this machine. (default: docker where its image is)"
    ),
]
Target = Annotated[
    Literal["auto", "cpu", "cuda"] | None,
    typer.Option(help="Kernels in CUDA C++ or, for the CPU, in C++. (default: cuda where there is a GPU and nvcc)"),
]
Python = Annotated[
    Path | None,
    typer.Option(
        help="A Python with torch for operator and kernels. (default: $CUDA_AGENT_PYTHON, else .venv-sandbox)"
    ),
]
Precision = Annotated[
    Literal["tf32", "ieee", "half"] | None,
    typer.Option(help="What matrix products may round their inputs to, on both sides. (default: tf32; cpu: ieee)"),
]
Libraries = Annotated[
    Literal["vendor", "own", "any"] | None,
    typer.Option(
        help="What may compute: own kernels, also cuBLAS and cuDNN (vendor), or anything (any). (default: vendor)"
    ),
]
OutputLifetime = Annotated[
    Literal["held", "next-call"] | None,
    typer.Option(help="Whether outputs must stay valid as long as held or until the next call. (default: held)"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else there.")]
