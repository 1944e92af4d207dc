"""Reads a trajectory back: whole lines as events, with what had to be mended said aloud.

A crash can leave a last line that is cut off or filled with NULs: it is left out, with a notice. Damage before the end
is refused. What a later version of the same schema added is kept as `Unknown` or left out: a run stays readable.
"""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from cuda_agent.errors import ConfigError
from cuda_agent.files import LineFile, whole_lines
from cuda_agent.trajectory import SCHEMA, TYPES, Event, Rewound, TurnEnded, Unknown


@dataclass(frozen=True)
class History:
    """What a trajectory says."""

    events: tuple[Event, ...]
    times: tuple[datetime, ...]
    """When each was written."""
    ends: tuple[int, ...]
    """Where the line of each ends in the file, without its newline, in bytes from its start."""
    notices: tuple[str, ...]
    """What was left out, a sentence each."""

    @property
    def whole_bytes(self) -> int:
        """So much of the file is whole; what follows it is torn."""
        return self.ends[-1] if self.ends else 0


def read(path: Path) -> list[Event]:
    """Return the events of a trajectory.

    Raises:
        ConfigError: it is missing, damaged before its end, or of a later schema.
    """
    return list(read_history(path).events)


def read_history(path: Path) -> History:
    """Read a trajectory with what is known of each line.

    Raises:
        ConfigError: it is missing, damaged before its end, or of a later schema.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{str(path)!r} cannot be read ({error.strerror}); name the folder of a run.") from error
    whole = whole_lines(data)
    events: list[Event] = []
    times: list[datetime] = []
    ends: list[int] = []
    ignored: set[str] = set()
    end = -1
    for number, line in enumerate(whole.lines, start=1):
        end += len(line) + 1
        if not line.strip():
            continue
        event, when = _event(path, number, line, len(events), ignored)
        events.append(event)
        times.append(when)
        ends.append(end)
    notices = []
    if whole.lost:
        notices.append(f"{path.name}: its last {whole.lost} bytes were cut off or spoiled by a crash and are left out.")
    if ignored:
        names = ", ".join(sorted(ignored))
        notices.append(f"{path.name} was written by a later version; this one does not know {names}.")
    return History(tuple(events), tuple(times), tuple(ends), tuple(notices))


def mend(file: LineFile, history: History) -> None:
    """Cut off what is torn, so that the next line does not grow out of it.

    Raises:
        DiskError: the file could not be written.
    """
    file.cut(history.whole_bytes)


def _event(path: Path, number: int, line: bytes, seq: int, ignored: set[str]) -> tuple[Event, datetime]:
    try:
        raw = json.loads(line)
        _check_schema(path, raw["schema"])
        if raw["seq"] != seq:
            raise ValueError(f"it is event {raw['seq']!r} where number {seq} should stand: events are missing")
        when = datetime.fromisoformat(raw["time"])
        name = raw["type"]
        fields = {key: value for key, value in raw.items() if key not in ("schema", "seq", "time", "type")}
        return _made(name, fields, ignored), when
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{str(path)!r} is damaged in line {number} ({error!r}); nothing after it can be trusted:"
            " restore the file from a copy."
        ) from error


def _check_schema(path: Path, schema: Any) -> None:
    if isinstance(schema, int) and schema > SCHEMA:
        raise ConfigError(f"{str(path)!r} is of schema {schema}, and this version reads {SCHEMA}; use a later version.")
    if schema != SCHEMA:
        raise ValueError(f"schema {schema!r}")


def _made(name: str, fields: dict[str, Any], ignored: set[str]) -> Event:
    kind = TYPES.get(name)
    if kind is None:
        ignored.add(f"the event {name!r}")
        return Unknown(name, fields)
    known = {field.name for field in dataclasses.fields(kind)}
    ignored.update(f"{key!r} of {name!r}" for key in fields.keys() - known)
    return kind(**{key: value for key, value in fields.items() if key in known})


def standing(events: Sequence[Event]) -> list[Event]:
    """Leave out what somebody went back over: the events that still count, in order."""
    kept: list[Event] = []
    ends: dict[int, int] = {}
    for event in events:
        if isinstance(event, Rewound):
            del kept[ends.get(event.turn, len(kept)) :]
            continue
        kept.append(event)
        if isinstance(event, TurnEnded):
            ends[event.turn] = len(kept)
    return kept
