"""The command line: arguments in, one call into `runs`, text and an exit code out."""

import io
import json
import os
import sys
from collections.abc import Sequence

import typer

from cuda_agent.cli.app import app
from cuda_agent.errors import CudaAgentError
from cuda_agent.llm.openhands.keys import conceal, holds_secret
from cuda_agent.terminal import plain
from cuda_agent_tools.sandbox import SandboxError

_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]
"""What the parser raises; typer has a public name for its child only."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program and exit: 0 target reached, 1 without it, 2 usage, 3 machinery, 130 interrupted."""
    if holds_secret(os.environ):
        conceal()
    given = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show ends no run
    sys.exit(_code(given))


def _code(given: list[str]) -> int:
    as_json = "--json" in given
    if "" in given:  # as a path it would be the current directory: a batch of all that is there
        return _failed("An argument is empty; was a variable of the shell unset?", 2, as_json, kind="usage")
    try:
        code = app(given, prog_name="cuda-agent", standalone_mode=False)
    except (CudaAgentError, SandboxError) as error:
        code, kind = (error.exit_code, error.kind) if isinstance(error, CudaAgentError) else (3, "sandbox")
        return _failed(str(error), code, as_json, kind=kind)
    except _USAGE_ERROR as error:
        return _misused(error, as_json)
    except (KeyboardInterrupt, typer.Abort):
        return _failed("interrupted; nothing is left running.", 130, as_json, kind="interrupted")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads any more
        return 1
    except Exception as error:
        if as_json:
            _print_error(f"unexpected {type(error).__name__}: {error}", 3, "unexpected")
        raise
    return code if isinstance(code, int) else 0


def _misused(error: Exception, as_json: bool) -> int:
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    if not message.strip():
        return 2  # no command at all: the help was printed
    context = getattr(error, "ctx", None)
    program = context.command_path if context is not None else "cuda-agent"
    return _failed(
        f"{message.replace('Value error, ', '').rstrip('.')}; see '{program} --help'.", 2, as_json, kind="usage"
    )


def _failed(message: str, code: int, as_json: bool, *, kind: str) -> int:
    line = plain(" ".join(message.split()))
    if as_json:
        _print_error(line, code, kind)
    print(f"cuda-agent: {line}", file=sys.stderr)
    return code


def _print_error(message: str, code: int, kind: str) -> None:
    print(json.dumps({"error": {"message": message, "exit_code": code, "kind": kind}}, ensure_ascii=False))
