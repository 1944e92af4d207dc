"""Write docs/trajectory.schema.json and the table of events in docs/trajectory.md from the dataclasses.

    python scripts/trajectory_schema.py [--check]

With --check nothing is written; the exit code is 1 where a file is not as it would be.
"""

import dataclasses
import inspect
import itertools
import json
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from cuda_agent.trajectory import SCHEMA, TYPES, Known

DOCS = Path(__file__).resolve().parents[1] / "docs"
SCHEMA_FILE = DOCS / "trajectory.schema.json"
PAGE = DOCS / "trajectory.md"
BEGIN, END = "<!-- events: begin -->\n", "<!-- events: end -->\n"
_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def main() -> int:
    """Write both files, or say which of them is out of date."""
    page = PAGE.read_text(encoding="utf-8")
    head, _, rest = page.partition(BEGIN)
    wanted = {SCHEMA_FILE: schema_text(), PAGE: head + BEGIN + table() + END + rest.partition(END)[2]}
    stale = [file for file, text in wanted.items() if not file.exists() or file.read_text(encoding="utf-8") != text]
    if "--check" in sys.argv[1:]:
        for file in stale:
            print(f"{file.name} is out of date: run python scripts/trajectory_schema.py")
        return bool(stale)
    for file in stale:
        file.write_text(wanted[file], encoding="utf-8")
    return 0


def schema_text() -> str:
    """Return the JSON Schema of one line."""
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "One line of a trajectory.jsonl",
        "description": "A later version may add types and properties; readers keep or ignore what they do not know.",
        "type": "object",
        "required": ["schema", "seq", "time", "type"],
        "properties": {
            "schema": {"const": SCHEMA},
            "seq": {"type": "integer", "minimum": 0},
            "time": {"type": "string", "format": "date-time"},
            "type": {"type": "string"},
        },
        "allOf": [
            {"if": {"properties": {"type": {"const": name}}}, "then": {"$ref": f"#/$defs/{name}"}} for name in TYPES
        ],
        "$defs": {name: _event(kind) for name, kind in TYPES.items()},
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def table() -> str:
    """Return the events and their fields as Markdown."""
    rows = ["| type | fields | when |", "|---|---|---|"]
    for name, kind in TYPES.items():
        names = ", ".join(f"`{one.name}`" for one in dataclasses.fields(kind))
        rows.append(f"| `{name}` | {names} | {' '.join((kind.__doc__ or '').split())} |")
    return "\n".join(rows) + "\n"


def _event(kind: type[Known]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    notes = _notes(kind)
    properties = {
        one.name: {**_type(hints[one.name]), **({"description": notes[one.name]} if one.name in notes else {})}
        for one in dataclasses.fields(kind)
    }
    required = [one.name for one in dataclasses.fields(kind) if _has_no_default(one)]
    return {"description": " ".join((kind.__doc__ or "").split()), "properties": properties, "required": required}


def _has_no_default(one: dataclasses.Field[Any]) -> bool:
    return one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING


def _type(hint: Any) -> dict[str, Any]:
    origin = get_origin(hint)
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if hint is Any:
        return {}
    if origin is typing.Literal:
        return {"enum": list(get_args(hint))}
    if origin in (types.UnionType, typing.Union):
        return {"anyOf": [_type(one) for one in get_args(hint)]}
    if origin is Sequence:
        return {"type": "array", "items": _type(get_args(hint)[0])}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _type(get_args(hint)[1])}
    raise TypeError(f"no JSON type for {hint!r}")


def _notes(kind: type) -> dict[str, str]:
    """Return the string literals under the fields."""
    lines = inspect.getsource(kind).splitlines()
    found: dict[str, str] = {}
    for before, line in itertools.pairwise(lines):
        text = line.strip()
        if text.startswith('"""') and text.endswith('"""') and ":" in before:
            found[before.split(":")[0].strip()] = text[3:-3]
    return found


if __name__ == "__main__":
    sys.exit(main())
