"""The table of commands. Importing it loads typer and nothing heavy: each command imports what it runs when it runs."""

from typing import Annotated

import typer

from cuda_agent import __version__
from cuda_agent.cli.batch import batch
from cuda_agent.cli.compare import compare
from cuda_agent.cli.debug import debug
from cuda_agent.cli.doctor import doctor
from cuda_agent.cli.image import image
from cuda_agent.cli.judge import judge
from cuda_agent.cli.optimize import optimize
from cuda_agent.cli.replay import replay
from cuda_agent.cli.resume import fork, resume
from cuda_agent.cli.show import show

app = typer.Typer(
    name="cuda-agent",
    help="An agent that writes CUDA kernels, and a judge that says whether they are right and how fast they are.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(optimize)
app.command()(batch)
app.command()(compare)
app.command()(debug)
app.command()(resume)
app.command()(fork)
app.command()(replay)
app.command()(judge)
app.command()(show)
app.command()(doctor)
app.add_typer(image, name="image")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"cuda-agent {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Exit codes: 0 target reached, 1 finished without it, 2 usage, 3 the machinery failed, 130 interrupted."""
