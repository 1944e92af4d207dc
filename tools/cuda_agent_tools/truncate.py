"""Long text cut to what a model can read: its head, the first error, its tail."""

import re
from dataclasses import dataclass

LIMIT = 12_000
"""Characters of one tool result."""
ERROR_LIMIT = 1_500
ERROR = re.compile(
    r"(?i:\b(?:error|fatal)\b)|\b[A-Z]\w*Error\b|undefined reference|Traceback \(most recent call last\)|\[FAIL\]"
    r"|\bFAILED\b|Segmentation fault|core dumped|illegal memory access"
)
ERROR_LINES = 4
"""How much is shown with the first error: its line and the ones after it."""


@dataclass(frozen=True)
class Truncated:
    """The text as shown, and how many characters of it are not."""

    text: str
    cut: int = 0


def truncate(text: str, limit: int = LIMIT) -> Truncated:
    """Keep about `limit` characters, whole lines where there are lines."""
    if len(text) <= limit:
        return Truncated(text)
    head_end = _line_end(text, limit * 3 // 10, limit // 10)
    tail_start = _line_start(text, len(text) - limit * 5 // 10, limit // 10)
    error = _first_error(text, head_end, tail_start, limit * 2 // 10)
    cut = tail_start - head_end
    lines = text.count("\n", head_end, tail_start)
    note = f"[... {cut:,} characters ({lines:,} lines) cut ...]"
    if error:
        note = f"[... {cut:,} characters ({lines:,} lines) cut, the first error among them:]\n{error}\n[...]"
    return Truncated(f"{text[:head_end].rstrip()}\n{note}\n{text[tail_start:]}", cut)


def _first_error(text: str, start: int, end: int, limit: int) -> str:
    """Return the lines of the first error of the text, if they lie in the part that is cut."""
    found = ERROR.search(text)
    if found is None or found.start() < start or found.start() >= end:
        return ""
    room = min(limit, ERROR_LIMIT)
    line_start = max(text.rfind("\n", 0, found.start()) + 1, found.start() - room // 4)
    return "\n".join(text[line_start : min(end, line_start + room)].split("\n")[:ERROR_LINES]).rstrip()


def _line_end(text: str, at: int, slack: int) -> int:
    newline = text.rfind("\n", at - slack, at)
    return at if newline < 0 else newline + 1


def _line_start(text: str, at: int, slack: int) -> int:
    newline = text.find("\n", at, at + slack)
    return at if newline < 0 else newline + 1
