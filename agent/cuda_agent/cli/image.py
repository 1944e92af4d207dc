"""`cuda-agent image build|check`."""

import os
from pathlib import Path
from typing import Annotated

import typer

image = typer.Typer(help="The image of the docker sandbox.", no_args_is_help=True)

Tag = Annotated[
    str | None, typer.Option(help="The image's name. (default: $CUDA_AGENT_IMAGE, else cuda-agent-sandbox:latest)")
]


@image.command()
def build(
    tag: Tag = None,
    base: Annotated[
        str | None, typer.Option(help="Any Debian or Ubuntu with Python 3.11 or newer. (default: an NVIDIA CUDA image)")
    ] = None,
    python_version: Annotated[str | None, typer.Option(help="The base's Python. (default: 3.12)")] = None,
    torch: Annotated[str | None, typer.Option(help="torch, as pip takes it. (default: torch==2.13.0)")] = None,
    wheels: Annotated[
        Path | None, typer.Option(help="A folder that holds the wheels of torch, numpy and pip already.")
    ] = None,
    network: Annotated[str | None, typer.Option(help="The build's network, as docker build takes it.")] = None,
) -> int:
    """Build the image where it is missing or was built from something else. It may pull the base (several GB)."""
    from cuda_agent.config import image_tag  # heavy: only when an image is built
    from cuda_agent.sandbox.docker.build import build as build_image
    from cuda_agent.sandbox.docker.build import lines
    from cuda_agent.sandbox.docker.engine import connect
    from cuda_agent.sandbox.docker.image import Recipe

    chosen = {"base": base, "python": python_version, "torch": torch}
    recipe = Recipe(**{name: value for name, value in chosen.items() if value is not None})
    name = tag or image_tag(os.environ)
    found, built = build_image(connect(os.environ), name, recipe, wheels=wheels, network=network, say=print)
    print(f"{name} {'was built' if built else 'is up to date'}: {', '.join(lines(found))}")
    return 0


@image.command()
def check(tag: Tag = None) -> int:
    """Say whether the image is there and was built by this version. Exit codes: 0 yes, 1 no."""
    from cuda_agent.config import image_tag  # heavy: only when an image is looked for
    from cuda_agent.sandbox.docker.build import lines
    from cuda_agent.sandbox.docker.engine import connect
    from cuda_agent.sandbox.docker.image import BUILD, find, state

    name = tag or image_tag(os.environ)
    found = find(connect(os.environ), name)
    if found is None:
        print(f"{name} is not there: run {BUILD}.")
        return 1
    fresh = state(found) == "ready"
    verdict = "is up to date" if fresh else f"was built from something else (run {BUILD})"
    print(f"{name} {verdict}: {', '.join(lines(found))}")
    return 0 if fresh else 1
