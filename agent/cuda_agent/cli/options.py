"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Literal

import typer

Operator = Annotated[
    Path, typer.Argument(metavar="MODEL.py", help="A file with Model and get_inputs(), or its folder.")
]
Model = Annotated[
    str | None,
    typer.Option(
        help="Who writes the kernels: builtin, an LLM as litellm names it, or scripted:FILE.json. (default: builtin)"
    ),
]
ApiBase = Annotated[
    str | None, typer.Option(metavar="URL", help="The LLM's server, where it is not the provider's own.")
]
ApiKeyEnv = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The environment variable with the LLM's key. (default: the provider's usual)"),
]
Temperature = Annotated[float | None, typer.Option(help="How freely the LLM samples. (default: the provider's)")]
ReasoningEffort = Annotated[
    str | None, typer.Option(metavar="LEVEL", help="How much a reasoning LLM thinks: low, medium, high, ...")
]
ContextTokens = Annotated[
    int | None, typer.Option(metavar="TOKENS", help="The conversation sent is kept below. (default: 128000)")
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
Gpu = Annotated[
    str | None,
    typer.Option(metavar="NUMBER|UUID", help="The one GPU to use, as nvidia-smi names it. (default: the first)"),
]
Python = Annotated[
    Path | None,
    typer.Option(
        help="A Python with torch for operator and kernels. (default: $CUDA_AGENT_PYTHON, else .venv-sandbox)"
    ),
]
RunDir = Annotated[Path | None, typer.Option(help="The run's folder, new. (default: runs/<UTC stamp>-<operator>)")]
MaxTurns = Annotated[int | None, typer.Option(help="Stop after so many replies. (default: 200)")]
TimeLimit = Annotated[float | None, typer.Option("--time-limit", metavar="SECONDS", help="Stop after so many seconds.")]
Polish = Annotated[int | None, typer.Option(help="So many more turns once the target is reached.")]
Precision = Annotated[
    Literal["tf32", "ieee", "half"] | None,
    typer.Option(help="What matrix products may round their inputs to, on both sides. (default: tf32; cpu: ieee)"),
]
Libraries = Annotated[
    Literal["vendor", "own", "any"] | None,
    typer.Option(
        help="What may compute: own kernels, also cuBLAS, cuDNN and BLAS (vendor), or anything (any). (default: vendor)"
    ),
]
OutputLifetime = Annotated[
    Literal["held", "next-call"] | None,
    typer.Option(help="Whether outputs must stay valid as long as held or until the next call. (default: held)"),
]
OperatorTimeout = Annotated[
    float | None,
    typer.Option(
        "--operator-timeout",
        metavar="SECONDS",
        help="What a step of the operator may take: import, constructor, inputs, forward; at most 900. (default: 300)",
    ),
]
Plain = Annotated[
    bool,
    typer.Option("--plain", help="Print plain lines, no live view. (always so without a terminal or with NO_COLOR)"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else there.")]
