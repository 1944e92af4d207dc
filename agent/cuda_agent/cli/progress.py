"""Events of a run as plain lines."""

import os
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from cuda_agent.cli.standing import Standing
from cuda_agent.terminal import plain
from cuda_agent.trajectory import (
    CallStarted,
    Event,
    Judged,
    MessageAdded,
    Notice,
    Observation,
    Resumed,
    Rewound,
    RunStarted,
    StageStarted,
)
from cuda_agent_judge.report import side_name

WIDTH = 100
"""Of a line at most; what does not fit is cut at a word."""
LEAST_WIDTH = 40
"""Narrower terminals break the lines themselves."""
_MORE = " ..."
_INDENT = " " * 12
_STAGES = {
    "baseline": "the baseline is compiled, for this run and later ones",
    "sandbox": "starting the sandbox",
    "analyze": "the judge screens and traces the operator",
    "verdict": "the judge takes a verdict",
    "final verdict": "the judge takes a final verdict (clean build, fresh processes, new inputs)",
}


def width_of(stream: TextIO) -> int:
    """Return how wide the lines for a stream are, in columns: a terminal's may be narrower."""
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):  # no terminal
        return WIDTH
    return min(WIDTH, columns) if columns >= LEAST_WIDTH else WIDTH


class Progress:
    """A listener that prints a line for what a person waits for."""

    def __init__(self, *, to_stderr: bool = False, width: int | None = None) -> None:
        """`width` is in columns; left out, it is the terminal's, as far as lines go."""
        self._file = sys.stderr if to_stderr else sys.stdout
        self._width = width_of(self._file) if width is None else width
        self._standing = Standing()

    def line(self, text: str) -> None:
        """Print one line at once."""
        with suppress(OSError):  # nobody reads any more, or the terminal is gone: the run goes on
            print(text, file=self._file, flush=True)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Leave the terminal alone for the length of a `with` block; lines come only with events."""
        yield

    def settle(self) -> None:
        """Print lines only, which it does anyway."""

    def on_output(self, data: bytes) -> None:
        """Leave out what commands print; the observation's last line is shown when they end."""

    def on_event(self, event: Event) -> None:
        """Print the event's lines, if it has any."""
        for text in self._lines(event):
            self.line(text)

    def _lines(self, event: Event) -> list[str]:
        match event:
            case MessageAdded(role="assistant") if event.content:
                return self._wrapped(f"[turn {event.turn}] {_first_paragraph(event.content)}", most=2)
            case CallStarted(by="person") | Observation(by="person"):
                return []  # who made the call sees its answer
            case CallStarted():
                return self._wrapped(f"[turn {event.turn}]   {event.name}: {_call(event.arguments or {})}", most=1)
            case Observation():
                return self._wrapped(f"{_INDENT}{'failed: ' if event.is_error else ''}{_last_line(event.text)}", most=2)
            case Judged():
                return self._wrapped(self._verdict(event.report), most=3)
            case _:
                return self._of_the_run(event)

    def _of_the_run(self, event: Event) -> list[str]:
        match event:
            case Resumed():
                return self._wrapped(f"the run goes on after turn {event.turn}, model {event.model}")
            case Rewound():
                return self._wrapped(f"back to the end of turn {event.turn}")
            case RunStarted():
                return self._wrapped(f"operator {event.operator}, model {event.model}")
            case StageStarted() if event.name in _STAGES:
                return [f"{_STAGES[event.name]} ..."]
            case Notice():
                return self._wrapped(event.text)
            case _:
                return []

    def _verdict(self, report: Mapping[str, Any]) -> str:
        kind = "final verdict" if report.get("final") else "verdict"
        headline = report.get("headline", "compile")
        one = report.get("speedup", {}).get(headline)
        self._standing.hear(report)
        if one is None:
            return f"{kind}: {report['status']}: {report.get('reason', '')}"
        best = self._standing.best or 0.0
        more = f" (best so far {best:.3g}x)" if best not in (0.0, one["median"]) else ""
        return f"{kind}: {report['status']}, {one['median']:.3g}x over {side_name(headline)}{more}"

    def _wrapped(self, text: str, *, most: int | None = None) -> list[str]:
        """Break a text at words into lines: all of them, or `most` and a mark that there was more."""
        shown = plain(text, keep="")
        if most is None:
            # What is never cut may hold a path, which stays in one piece.
            return _lines_of(shown, self._width, whole_words=True)
        lines = _lines_of(shown, self._width, whole_words=False)
        if len(lines) <= most:
            return lines
        kept = _lines_of(shown, self._width - len(_MORE), whole_words=False)[:most]
        return [*kept[:-1], kept[-1] + _MORE]


def _call(arguments: Mapping[str, Any]) -> str:
    for key in ("description", "command", "file_path", "pattern"):
        if isinstance(arguments.get(key), str):
            return _first_paragraph(arguments[key])
    todos = arguments.get("todos")
    return f"{len(todos)} items" if isinstance(todos, list) else ""


def _first_paragraph(text: str) -> str:
    return text.strip().partition("\n\n")[0]


def _last_line(text: str) -> str:
    # The judge's commands end with a JSON line for programs; a person reads the one before.
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("{")]
    return lines[-1] if lines else ""


def _lines_of(text: str, width: int, *, whole_words: bool) -> list[str]:
    return textwrap.wrap(
        text, width, subsequent_indent=_INDENT, break_long_words=not whole_words, break_on_hyphens=False
    )
