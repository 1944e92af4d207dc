"""Events of a run as plain lines."""

import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from cuda_agent.trajectory import (
    CallStarted,
    Event,
    Judged,
    MessageAdded,
    Notice,
    Observation,
    RunStarted,
    StageStarted,
)

_WIDTH = 110
_STAGES = {
    "sandbox": "starting the sandbox",
    "analyze": "the judge screens and traces the operator",
    "verdict": "the judge takes a verdict",
    "final verdict": "the judge takes a final verdict (clean build, fresh processes, new inputs)",
}


class Progress:
    """A listener that prints a line for what a person waits for."""

    def __init__(self, *, to_stderr: bool = False) -> None:
        self._file = sys.stderr if to_stderr else sys.stdout
        self._best = 0.0

    def line(self, text: str) -> None:
        """Print one line at once."""
        with suppress(BrokenPipeError):  # nobody reads any more: the run goes on
            print(text, file=self._file, flush=True)

    def on_output(self, data: bytes) -> None:
        """Leave out what commands print; the observation's first line is shown when they end."""

    def on_event(self, event: Event) -> None:
        """Print the event's line, if it has one."""
        for text in self._lines(event):
            self.line(text)

    def _lines(self, event: Event) -> list[str]:
        match event:
            case RunStarted():
                return [f"operator {event.operator}, model {event.model}"]
            case StageStarted() if event.name in _STAGES:
                return [f"{_STAGES[event.name]} ..."]
            case Notice():
                return [event.text]
            case MessageAdded(role="assistant") if event.content:
                return [f"[turn {event.turn}] {_first_line(event.content)}"]
            case CallStarted():
                return [f"[turn {event.turn}]   {event.name}: {_call(event.arguments or {})}"]
            case Observation():
                return [f"            {'failed: ' if event.is_error else ''}{_last_line(event.text)}"]
            case Judged():
                return [f"verdict: {self._verdict(event.report)}"]
            case _:
                return []

    def _verdict(self, report: Mapping[str, Any]) -> str:
        headline = report.get("headline", "compile")
        one = report.get("speedup", {}).get(headline)
        if one is None:
            return f"{report['status']}: {_first_line(report.get('reason', ''))}"
        if report["status"] in ("win", "tie", "slower"):
            self._best = max(self._best, one["median"])
        name = "torch.compile" if headline == "compile" else headline
        return f"{report['status']}, {one['median']:.3g}x over {name} (best so far {self._best:.3g}x)"


def _call(arguments: Mapping[str, Any]) -> str:
    for key in ("description", "command", "file_path", "pattern"):
        if isinstance(arguments.get(key), str):
            return _first_line(arguments[key])
    todos = arguments.get("todos")
    return f"{len(todos)} items" if isinstance(todos, list) else ""


def _first_line(text: str) -> str:
    return _cut(next((line.strip() for line in text.splitlines() if line.strip()), ""))


def _last_line(text: str) -> str:
    # The judge's commands end with a JSON line for programs; a person reads the one before.
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("{")]
    return _cut(lines[-1] if lines else "")


def _cut(text: str) -> str:
    text = "".join(char if char.isprintable() else " " for char in text)  # no escape sequence reaches the terminal
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."
