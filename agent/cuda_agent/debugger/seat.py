"""Puts the console in front of whoever started the program."""

from collections.abc import Mapping
from contextlib import suppress
from typing import TextIO

from cuda_agent.debugger.console import Console
from cuda_agent.debugger.lines import edit_in_editor, lines_for


def console_for(source: TextIO, out: TextIO, environ: Mapping[str, str]) -> Console:
    """Return a console that reads from `source` and writes to `out`."""

    def write(text: str) -> None:
        with suppress(OSError):  # nobody reads any more, or the terminal is gone: the run goes on as it was told
            print(text, file=out, flush=True)

    return Console(lambda words: lines_for(source, out, words, environ), write, edit_in_editor)
