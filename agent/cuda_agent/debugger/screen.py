"""Text for a person's terminal: lines that fit, and nothing that a terminal would obey."""

import json
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from cuda_agent import terminal
from cuda_agent.llm.model import ToolCall

WIDTH = 80
MAX_VALUE_LINES = 12
"""Of one argument where a call is shown in passing."""


def plain(text: str) -> str:
    """Return the text with its lines and without anything that a terminal would obey."""
    return terminal.plain(text.replace("\r\n", "\n").replace("\r", "\n").expandtabs(4), keep="\n")


def one_line(text: str, width: int = WIDTH) -> str:
    """Return the text in one line of at most this width."""
    flat = " ".join(plain(text).split())
    return flat if len(flat) <= width else flat[: max(0, width - 4)] + " ..."


def paragraph(text: str, *, width: int = WIDTH, indent: str = "") -> str:
    """Break a text at words, its own lines kept."""
    lines: list[str] = []
    for line in plain(text).split("\n"):
        fits = len(indent) + len(line) <= width
        lines += (
            [indent + line]
            if fits
            else textwrap.wrap(
                line,
                width,
                initial_indent=indent,
                subsequent_indent=indent,
                break_long_words=False,  # a path stays in one piece
                break_on_hyphens=False,
            )
        )
    return "\n".join(lines)


def call_lines(call: ToolCall, *, whole: bool = False) -> list[str]:
    """Return a call's arguments, long ones cut unless they are wanted whole."""
    if call.arguments is None:
        return [f"    (not a JSON object) {one_line(call.raw_arguments, WIDTH - 26)}"]
    shown: list[str] = []
    for key, value in call.arguments.items():
        if key == "todos" and isinstance(value, list):
            shown += [f"    {line}" for line in todo_lines(value)]
            continue
        shown += _value_lines(plain(key), value, None if whole else MAX_VALUE_LINES)
    return shown


def _value_lines(key: str, value: Any, most: int | None) -> list[str]:
    if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        shown: list[str] = []
        for number, item in enumerate(value):
            for name, inner in item.items():
                shown += _value_lines(f"{key}.{number}.{plain(str(name))}", inner, most)
        return shown
    text = plain(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
    lines = text.split("\n")
    if len(lines) == 1:
        return [f"    {key}: {text}"]
    kept = lines if most is None else lines[:most]
    more = [f"      ({len(lines) - len(kept)} more lines)"] if len(kept) < len(lines) else []
    return [f"    {key}:", *(f"      {line}" for line in kept), *more]


def todo_lines(items: Iterable[Any]) -> list[str]:
    """Return a plan as a list to tick off."""
    return [
        f"{terminal.box(item.get('status'))} {one_line(str(item.get('content', '')), WIDTH - 8)}"
        for item in items
        if isinstance(item, Mapping)
    ]


def table(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Return the rows with their columns one under the other."""
    cells = [tuple(plain(cell) for cell in row) for row in rows]
    if not cells:
        return []
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def gist(call: ToolCall) -> str:
    """Return what a call is about, in one piece of text."""
    arguments = call.arguments or {}
    for key in ("command", "file_path", "pattern"):
        if isinstance(arguments.get(key), str):
            return str(arguments[key])
    todos = arguments.get("todos")
    return f"{len(todos)} items" if isinstance(todos, list) else ""
