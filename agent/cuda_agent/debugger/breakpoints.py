"""Breakpoints: on a tool, on a pattern in a command or path, on something that happened. Numbered as in pdb."""

import itertools
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from cuda_agent.debugger.happenings import MEANING, Happening
from cuda_agent.errors import UsageError
from cuda_agent.llm.model import ToolCall

_SEARCHED = ("command", "file_path", "path", "pattern")
"""Arguments that a pattern is looked for in."""


@dataclass(frozen=True)
class Breakpoint:
    """One line of the list."""

    number: int
    tool: str = ""
    pattern: str = ""
    """A regular expression; "" matches every call of the tool."""
    happening: Happening | None = None
    hits: int = 0

    @property
    def text(self) -> str:
        """Say what it stops at."""
        if self.happening is not None:
            return f"{self.happening} ({MEANING[self.happening]})"
        where = f"a call of {self.tool}" if self.tool else "a call"
        return f"{where} with {self.pattern!r} in its command or path" if self.pattern else where

    def matches(self, call: ToolCall) -> bool:
        """Whether it stops before this call."""
        if self.happening is not None or (self.tool and call.name != self.tool):
            return False
        texts = [str(value) for key, value in (call.arguments or {}).items() if key in _SEARCHED]
        return not self.pattern or any(re.search(self.pattern, text) for text in texts)


class Breakpoints:
    """The breakpoints of one debugger."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._points: dict[int, Breakpoint] = {}

    @property
    def all(self) -> Sequence[Breakpoint]:
        """Every breakpoint, by number."""
        return tuple(self._points.values())

    def add(self, words: Sequence[str], tools: Collection[str]) -> Breakpoint:
        """Set one: TOOL, TOOL PATTERN, PATTERN, or the name of a happening.

        Raises:
            UsageError: the pattern is no regular expression.
        """
        first = words[0]
        if len(words) == 1 and first in set(Happening):
            tool, pattern, happening = "", "", Happening(first)
        elif first in tools:
            tool, pattern, happening = first, _checked(" ".join(words[1:])), None
        else:
            tool, pattern, happening = "", _checked(" ".join(words)), None
        made = Breakpoint(next(self._numbers), tool, pattern, happening)
        self._points[made.number] = made
        return made

    def delete(self, number: int) -> Breakpoint:
        """Remove one.

        Raises:
            UsageError: there is none with this number.
        """
        if number not in self._points:
            raise UsageError(f"There is no breakpoint {number}; `break` lists them.")
        return self._points.pop(number)

    def clear(self) -> int:
        """Remove all and say how many there were."""
        count = len(self._points)
        self._points.clear()
        return count

    def at_call(self, call: ToolCall) -> Breakpoint | None:
        """Return the first breakpoint that stops before this call, its hit counted."""
        return self._hit([point for point in self._points.values() if point.matches(call)])

    def at(self, happened: Collection[Happening]) -> Breakpoint | None:
        """Return the first breakpoint on one of these, its hit counted; one on a first time is done then."""
        hit = self._hit([point for point in self._points.values() if point.happening in happened])
        if hit is not None and hit.happening is not None and hit.happening.once:
            del self._points[hit.number]
        return hit

    def _hit(self, found: Sequence[Breakpoint]) -> Breakpoint | None:
        for point in found:
            hits = point.hits + 1
            self._points[point.number] = Breakpoint(point.number, point.tool, point.pattern, point.happening, hits)
        return self._points[found[0].number] if found else None


def _checked(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise UsageError(
            f"{pattern!r} is no regular expression ({error}); write a backslash before what is meant as it stands."
        ) from error
    return pattern
