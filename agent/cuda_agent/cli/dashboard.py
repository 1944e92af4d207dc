"""What a person sees of a running run in a few rows: where it stands, the plan, the best so far, what it costs.

It listens to events and returns plain text of a given width; how that gets onto a terminal is `live.py`'s business.
"""

import math
import re
import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from cuda_agent.cli.standing import Standing
from cuda_agent.operators import MAIN
from cuda_agent.trajectory import (
    CallStarted,
    Event,
    Judged,
    MessageAdded,
    Observation,
    Resumed,
    RunStarted,
    StageStarted,
    Stopped,
)
from cuda_agent_judge.report import side_name

_STEPS = (
    ("utils.analysis", "analyze"),
    ("utils/compile.sh", "compile"),
    ("utils.verification", "verify"),
    ("utils.profiling", "profile"),
)
"""What a command is for, by what stands in it; the last that fits counts."""
_STAGES = {"model": "think"}
_WAITS = {
    "model": "waiting for the model",
    "baseline": "the baseline is compiled",
    "sandbox": "the sandbox starts",
    "analyze": "the judge screens and traces the operator",
    "verdict": "the judge takes a verdict",
    "final verdict": "the judge takes a final verdict",
}
_CURVE_POINTS = 24
_TAIL_BYTES = 4_000
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b.")


@dataclass(frozen=True)
class Marks:
    """The characters that a terminal can show."""

    curve: str
    done: str
    doing: str
    pending: str


UNICODE = Marks("▁▂▃▄▅▆▇█", "✓", "▸", "·")
ASCII = Marks("_.-=+*#@", "x", ">", ".")


class Dashboard:
    """The state of a run as its events tell it."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start = clock()
        self._operator = self._model = ""
        self._max_turns = 0
        self._turn = 0
        self._stage = "start"
        self._busy = ""
        self._since = self._start
        self._tail = b""
        self._plan: Sequence[Mapping[str, Any]] = ()
        self._standing = Standing()
        self._curve: list[float] = []
        self._baseline = ""
        self._tokens_in = self._tokens_out = 0
        self._cost: float | None = 0.0

    def on_output(self, data: bytes) -> None:
        """Keep the end of what the running command prints."""
        self._tail = (self._tail + data)[-_TAIL_BYTES:]

    def on_event(self, event: Event) -> None:
        """Follow the run."""
        match event:
            case RunStarted():
                self._operator, self._model = event.operator, event.model
                self._max_turns = int(event.settings.get("max_turns") or 0)
            case Resumed():
                path = PurePath(str(event.settings.get("operator", "")))
                self._operator = path.parent.name if path.name == MAIN else path.stem
                self._model, self._turn = event.model, event.turn
                self._max_turns = int(event.settings.get("max_turns") or 0)
            case StageStarted():
                self._turn = max(self._turn, event.turn)
                self._begin(_STAGES.get(event.name, event.name), event.note or _WAITS.get(event.name, ""))
            case MessageAdded(role="assistant"):
                self._count(event.usage or {})
            case CallStarted():
                self._call(event.name, event.arguments or {})
            case Observation():
                self._begin("", "")
            case Judged():
                self._judged(event.report)
            case Stopped():
                self._begin("stopped", event.reason)

    def rows(self, width: int, marks: Marks) -> list[str]:
        """Return the rows, none wider than `width` cells."""
        rows = [self._where(), self._doing(marks), self._said(), self._planned(marks), self._best(marks), self._spent()]
        return [fitted(row, width) for row in rows if row]

    @property
    def title(self) -> str:
        """Name the run."""
        return " · ".join(part for part in (self._operator, self._model) if part)

    def _begin(self, stage: str, busy: str) -> None:
        self._stage, self._busy = stage or self._stage, busy
        self._since, self._tail = self._clock(), b""

    def _call(self, name: str, arguments: Mapping[str, Any]) -> None:
        command = str(arguments.get("command", ""))
        found = [step for words, step in _STEPS if words in command]
        stage = found[-1] if found else {"MultiEdit": "write", "TodoWrite": "plan"}.get(name, "look")
        what = next((arguments[key] for key in ("command", "file_path", "pattern") if arguments.get(key)), "")
        self._begin(stage, f"{name}: {what}" if what else name)
        todos = arguments.get("todos")
        if name == "TodoWrite" and isinstance(todos, list):
            self._plan = [todo for todo in todos if isinstance(todo, Mapping)]

    def _count(self, usage: Mapping[str, Any]) -> None:
        self._tokens_in += int(usage.get("input_tokens") or 0)
        self._tokens_out += int(usage.get("output_tokens") or 0)
        cost = usage.get("cost_usd")
        self._cost = None if cost is None or self._cost is None else self._cost + float(cost)

    def _judged(self, report: Mapping[str, Any]) -> None:
        if self._standing.hear(report):
            self._baseline = side_name(report.get("headline", "compile"))
        if (best := self._standing.best) is not None:
            self._curve.append(best)

    def _where(self) -> str:
        turn = f"turn {self._turn}" + (f" of {self._max_turns}" if self._max_turns else "")
        return f"{turn}  {self._stage}  {_duration(self._clock() - self._start)}"

    def _doing(self, marks: Marks) -> str:
        if not self._busy:
            return ""
        return f"{marks.doing} {_duration(self._clock() - self._since)}  {_first_line(self._busy)}"

    def _said(self) -> str:
        return f"  {line}" if (line := _last_line(self._tail)) else ""

    def _planned(self, marks: Marks) -> str:
        if not self._plan:
            return ""
        done = sum(todo.get("status") == "completed" for todo in self._plan)
        open_ones = [todo for todo in self._plan if todo.get("status") != "completed"]
        signs = {"in_progress": marks.doing}
        steps = (f"{signs.get(str(todo.get('status')), marks.pending)} {todo.get('content', '')}" for todo in open_ones)
        return f"plan  {marks.done} {done}/{len(self._plan)}  {'  '.join(steps)}"

    def _best(self, marks: Marks) -> str:
        if self._standing.best is None:
            return ""
        return f"best  {self._curve[-1]:.3g}x over {self._baseline}  {curve(self._curve, marks)}"

    def _spent(self) -> str:
        if not self._tokens_in + self._tokens_out:
            return ""
        cost = "cost unknown" if self._cost is None else f"${self._cost:.2f}"
        return f"used  {_count(self._tokens_in)} tokens in, {_count(self._tokens_out)} out, {cost}"


def curve(values: Sequence[float], marks: Marks) -> str:
    """Draw the last values as a row of bars, by their logarithm: a speedup of 4 stands between 1 and 16."""
    logs = [math.log(max(value, 1e-9)) for value in values[-_CURVE_POINTS:]]
    low, high = min(logs), max(logs)
    steps = len(marks.curve) - 1
    return "".join(marks.curve[round(steps * (one - low) / (high - low)) if high > low else 0] for one in logs)


def plain(text: str) -> str:
    """Return one line without anything that a terminal obeys or whose width it may count otherwise."""
    return "".join(_shown(char) for char in _ANSI.sub("", text))


def fitted(text: str, width: int) -> str:
    """Return the text in one plain line of at most `width` cells."""
    line = plain(text).rstrip()
    return line if len(line) <= width else line[: max(0, width - 3)] + "..."


def _shown(char: str) -> str:
    if not char.isprintable():
        return " "
    odd = unicodedata.east_asian_width(char) in "WF" or unicodedata.combining(char) or ord(char) > 0xFFFF
    return "?" if odd else char


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _last_line(tail: bytes) -> str:
    lines = (plain(line).strip() for line in re.split(r"[\r\n]", tail.decode("utf-8", "replace")))
    found = [line for line in lines if line and not line.startswith("{")]
    return found[-1] if found else ""


def _duration(seconds: float) -> str:
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02}"
    return f"{whole // 3600}:{whole % 3600 // 60:02}:{whole % 60:02}"


def _count(number: int) -> str:
    return f"{number}" if number < 10_000 else f"{number / 1000:.0f}k" if number < 1_000_000 else f"{number / 1e6:.1f}M"
