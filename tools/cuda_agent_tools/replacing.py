r"""One exact replacement in a text whose line ends are kept: `\\n` in what is looked for matches `\\r\\n` as well."""

import bisect
import difflib
from dataclasses import dataclass, field

from cuda_agent_tools.text_file import main_line_end

HINT_LINES = 5_000
"""Files longer than this get no hint of the closest line."""
SHOWN = 100


class NotReplaced(Exception):
    """The replacement cannot be done; the message says why, for the model."""


@dataclass(frozen=True)
class Replaced:
    """The new text, and the line numbers (from 1) at which something was replaced."""

    text: str
    lines: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class _Span:
    start: int
    end: int


def replace(text: str, old: str, new: str, *, every: bool) -> Replaced:
    """Replace the only occurrence of `old`, or every one.

    Raises:
        NotReplaced: `old` is not there, or there more than once without `every`.
    """
    literal = "\r" in old or "\r" in new
    spans = _literal_spans(text, old) if literal else _line_end_blind_spans(text, old)
    if literal and not spans and "\r\n" in old:
        old, new, literal = old.replace("\r\n", "\n"), new.replace("\r\n", "\n"), False
        spans = _line_end_blind_spans(text, old)
    if not spans:
        raise NotReplaced(f"old_string was not found{_hint(text, old)}")
    lines = [text.count("\n", 0, span.start) + 1 for span in spans]
    if len(spans) > 1 and not every:
        distinct = list(dict.fromkeys(lines))
        where = ", ".join(map(str, distinct[:8])) + (", ..." if len(distinct) > 8 else "")
        raise NotReplaced(
            f"old_string was found {len(spans)} times (lines {where}); add lines around it until it is unique, "
            "or set replace_all"
        )
    pieces, at = [], 0
    for span in spans:
        found = text[span.start : span.end]
        pieces += [text[at : span.start], new if literal else _with_line_ends(found, new, text)]
        at = span.end
    return Replaced("".join([*pieces, text[at:]]), lines)


def _literal_spans(text: str, old: str) -> list[_Span]:
    spans, at = [], text.find(old)
    while at >= 0:
        spans.append(_Span(at, at + len(old)))
        at = text.find(old, at + len(old))
    return spans


def _line_end_blind_spans(text: str, old: str) -> list[_Span]:
    r"""Find `old` in the text read with `\\n` for every `\\r\\n`, as spans of the text itself."""
    if "\r\n" not in text:
        return _literal_spans(text, old)
    returns: list[int] = []  # where, in the shortened text, a \r was left out
    at = text.find("\r\n")
    while at >= 0:
        returns.append(at - len(returns))
        at = text.find("\r\n", at + 2)
    spans = _literal_spans(text.replace("\r\n", "\n"), old)

    def original(position: int) -> int:
        return position + bisect.bisect_left(returns, position)

    return [_Span(original(span.start), original(span.end)) for span in spans]


def _with_line_ends(found: str, new: str, text: str) -> str:
    """Give the lines of `new` the ends that the same lines had; new lines get those of their neighbours."""
    if "\r\n" not in text:
        return new
    old_lines, new_lines = _lines(found), new.split("\n")
    usual = _usual_end(old_lines, text)
    ends = [usual] * (len(new_lines) - 1)
    blocks = difflib.SequenceMatcher(None, [line for line, _ in old_lines], new_lines, autojunk=False)
    for kind, old_from, old_to, new_from, new_to in blocks.get_opcodes():
        if kind == "equal" or (kind == "replace" and old_to - old_from == new_to - new_from):
            for offset in range(new_to - new_from):
                end = old_lines[old_from + offset][1]
                if end and new_from + offset < len(ends):
                    ends[new_from + offset] = end
    return "".join(line + end for line, end in zip(new_lines, [*ends, ""], strict=True))


def _lines(text: str) -> list[tuple[str, str]]:
    """Split into lines and their ends; the last has none."""
    lines = text.split("\n")
    split = [(line[:-1], "\r\n") if line.endswith("\r") else (line, "\n") for line in lines[:-1]]
    return [*split, (lines[-1], "")]


def _usual_end(lines: list[tuple[str, str]], text: str) -> str:
    ends = {end for _, end in lines if end}
    return ends.pop() if len(ends) == 1 else main_line_end(text)


def _hint(text: str, old: str) -> str:
    """Say where something like `old` is."""
    wanted = old.strip("\n").split("\n")
    lines = text.replace("\r\n", "\n").split("\n")
    bare = [line.split() for line in lines]
    bare_wanted = [line.split() for line in wanted]
    for at in range(len(lines) - len(wanted) + 1):
        if bare[at : at + len(wanted)] == bare_wanted and any(bare_wanted):
            return f"; line {at + 1} differs in white space only: {_shown(lines[at])}"
    if len(lines) > HINT_LINES:
        return "; look at the file first"
    first = next((line for line in wanted if line.strip()), wanted[0])
    closest = difflib.get_close_matches(first[:500], [line[:500] for line in lines if line.strip()], n=1, cutoff=0.6)
    if not closest:
        return "; look at the file first"
    number = next(n for n, line in enumerate(lines, 1) if line[:500] == closest[0])
    return f"; the closest to its first line is line {number}: {_shown(closest[0])}"


def _shown(line: str) -> str:
    return repr(line if len(line) <= SHOWN else line[:SHOWN] + "...")
