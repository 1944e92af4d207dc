"""Everything that happened in a run, as typed events: one JSON object a line, handed to the system at every step.

A line is {"schema", "seq", "time" (UTC), "type", ...fields of the event}. Killing the process loses at most the event
being written; `read` leaves out a last line that was cut off.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, get_args

from cuda_agent.errors import ConfigError
from cuda_agent.files import LineFile

SCHEMA = 1


@dataclass(frozen=True)
class RunStarted:
    """The first event."""

    type: ClassVar[str] = "run_started"
    operator: str
    operator_sha256: str
    model: str
    settings: Mapping[str, Any]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class MessageAdded:
    """A system, user or assistant message went into the conversation (tool answers are `Observation`)."""

    type: ClassVar[str] = "message"
    turn: int
    """0 before the model's first reply."""
    role: Literal["system", "user", "assistant"]
    content: str
    tool_calls: Sequence[Mapping[str, Any]] = ()
    """Assistant only: {id, name, arguments, raw_arguments}."""
    reasoning: str = ""
    provider: Mapping[str, Any] = field(default_factory=dict)
    usage: Mapping[str, Any] | None = None
    """Assistant only; the price is null where it is unknown."""
    finish_reason: str = ""
    refusal: str | None = None
    gave_up: str | None = None
    by: str = ""
    """"person" where a person said it."""


@dataclass(frozen=True)
class CallStarted:
    """A tool call is about to run; without an `Observation` of the same id its effect is unknown."""

    type: ClassVar[str] = "tool_call"
    turn: int
    id: str
    name: str
    arguments: Mapping[str, Any] | None
    by: str = ""
    """"person" where a person made the call: it is no part of the conversation, the model is told in a message."""


@dataclass(frozen=True)
class CallChanged:
    """A call of the last reply was replaced before it ran: the conversation holds what ran."""

    type: ClassVar[str] = "call_changed"
    turn: int
    id: str
    name: str
    arguments: Mapping[str, Any] | None
    was: Mapping[str, Any]
    """The call as the model made it: {name, arguments, raw_arguments}."""
    by: str = "person"


@dataclass(frozen=True)
class Observation:
    """What the model was told about a call."""

    type: ClassVar[str] = "observation"
    turn: int
    id: str
    name: str
    text: str
    is_error: bool
    duration_s: float
    by: str = ""
    """"person" where it answers a call that a person made."""


@dataclass(frozen=True)
class StageStarted:
    """The runtime does something that takes a while."""

    type: ClassVar[str] = "stage"
    turn: int
    name: Literal["sandbox", "analyze", "model", "verdict", "final verdict"]
    note: str = ""


@dataclass(frozen=True)
class Judged:
    """The judge answered."""

    type: ClassVar[str] = "verdict"
    turn: int
    report: Mapping[str, Any]
    snapshot: str | None = None
    """The manifest of what was judged."""


@dataclass(frozen=True)
class SnapshotTaken:
    """The submission changed in this turn and was kept."""

    type: ClassVar[str] = "snapshot"
    turn: int
    manifest: str
    sha256: str


@dataclass(frozen=True)
class Notice:
    """Something a person should know."""

    type: ClassVar[str] = "notice"
    turn: int
    text: str


@dataclass(frozen=True)
class Stopped:
    """The loop ended."""

    type: ClassVar[str] = "stopped"
    turn: int
    reason: str
    detail: str = ""


Event = (
    RunStarted
    | MessageAdded
    | CallStarted
    | CallChanged
    | Observation
    | StageStarted
    | Judged
    | SnapshotTaken
    | Notice
    | Stopped
)

_TYPES: dict[str, Callable[..., Event]] = {kind.type: kind for kind in get_args(Event)}


class Listener(Protocol):
    """Somebody who watches a run; it must not raise."""

    def on_event(self, event: Event) -> None:
        """Hear of an event after it was written."""
        ...

    def on_output(self, data: bytes) -> None:
        """See what a running command prints, as it comes."""
        ...


class Silent:
    """A listener that does nothing."""

    def on_event(self, event: Event) -> None:
        """Ignore it."""

    def on_output(self, data: bytes) -> None:
        """Ignore it."""


class Trajectory:
    """The writer: each event is on disk before anyone hears of it."""

    def __init__(self, file: LineFile, listener: Listener) -> None:
        self._file = file
        self._seq = 0
        self.listener = listener

    def add(self, event: Event) -> None:
        """Append an event and tell the listener.

        Raises:
            DiskError: it could not be written; the file still ends with a whole line.
        """
        head = {"schema": SCHEMA, "seq": self._seq, "time": datetime.now(UTC).isoformat(), "type": event.type}
        line = json.dumps(head | dataclasses.asdict(event), ensure_ascii=False, default=str)
        self._file.append(line.encode("utf-8", "backslashreplace"))
        self._seq += 1
        self.listener.on_event(event)


def as_json_object(event: Event) -> dict[str, Any]:
    """Return the event's fields with its type."""
    return {"type": event.type, **dataclasses.asdict(event)}


def read(path: Path) -> list[Event]:
    """Read a trajectory.

    Raises:
        ConfigError: it is missing or not a trajectory of this schema.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise ConfigError(f"{str(path)!r} cannot be read ({error.strerror}); name the folder of a run.") from error
    return [_event(path, number, line) for number, line in enumerate(lines[:-1], start=1)]


def _event(path: Path, number: int, line: bytes) -> Event:
    try:
        raw = json.loads(line)
        if raw.pop("schema") != SCHEMA:
            raise ValueError("of another schema")
        kind = _TYPES[raw.pop("type")]
        del raw["seq"], raw["time"]
        return kind(**raw)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{str(path)!r} is not a trajectory that this version reads (line {number}: {error!r});"
            " use the version that wrote it."
        ) from error
