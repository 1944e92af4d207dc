"""Everything that happened in a run, as typed events: one JSON object a line, handed to the system at every step.

A line is {"schema", "seq", "time" (UTC), "type", ...fields of the event}. Killing the process loses at most the event
being written. `history.py` reads it back; docs/trajectory.md describes it.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, Protocol, get_args

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
    parent: Mapping[str, Any] | None = None
    """{run, turn} of the run this one was forked from: what follows up to that turn happened there."""


@dataclass(frozen=True)
class Resumed:
    """The run goes on in another process: calls without an answer get one, the turn in flight is settled anew."""

    type: ClassVar[str] = "resumed"
    turn: int
    """The last turn that had begun."""
    model: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class SandboxStarted:
    """A sandbox stands; a run has as many as processes worked on it."""

    type: ClassVar[str] = "sandbox"
    turn: int
    kind: str
    workspace: str
    """Its path as the model sees it."""
    state_dir: str
    """The directory of the tools' own state, as the model sees it; of `docker` it goes with the sandbox."""


@dataclass(frozen=True)
class Rewound:
    """Somebody went back: what came after the end of `turn` no longer counts."""

    type: ClassVar[str] = "rewound"
    turn: int
    """The turn that is the last one again."""
    left: int = 0
    """The turn that was left."""


@dataclass(frozen=True)
class Forked:
    """Another run goes on from the end of `turn`; this one is not changed by it."""

    type: ClassVar[str] = "forked"
    turn: int
    run: str
    """The folder of the new run."""
    model: str


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
    """`person` where a person said it; otherwise the model or the runtime."""
    stays: bool = False
    """The runtime said it once and for all: settling the turn in flight anew would not say it again."""


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
    """A pending call of the last reply was replaced before it ran; the conversation shows the new one."""

    type: ClassVar[str] = "call_changed"
    turn: int
    id: str
    name: str
    arguments: Mapping[str, Any] | None
    was: Mapping[str, Any]
    """{name, arguments, raw_arguments} as the model wrote them."""
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
    name: Literal["baseline", "sandbox", "analyze", "model", "verdict", "final verdict"]
    note: str = ""


@dataclass(frozen=True)
class Judged:
    """The judge answered."""

    type: ClassVar[str] = "verdict"
    turn: int
    report: Mapping[str, Any]
    snapshot: str | None = None
    """The snapshot that holds what was judged."""


@dataclass(frozen=True)
class SnapshotTaken:
    """The workspace (or the shell's state) changed and was kept."""

    type: ClassVar[str] = "snapshot"
    turn: int
    snapshot: str
    """Its name in `snapshots/turns.jsonl`."""
    submission: str
    """SHA-256 of the submission in it, over names and bytes."""
    changed: int = 0
    removed: int = 0
    skipped: Sequence[str] = ()
    """Names of which the content is not kept (too large, special, unreadable); ten at most."""


@dataclass(frozen=True)
class TurnEnded:
    """A turn was settled; everything is as a later `Rewound(turn)` finds it. Turn 0 is the briefing."""

    type: ClassVar[str] = "turn_ended"
    turn: int
    snapshot: str
    submission: str
    """SHA-256 of the submission as noted in this turn or before; "" where none was read yet."""
    loop: Mapping[str, Any]
    """The loop's counters: idle, polish_left, finals_left, elapsed_s, verdict_s (of the slowest verdict)."""


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


@dataclass(frozen=True)
class Unknown:
    """An event of a later version: kept as it came, understood by nobody here."""

    type: ClassVar[str] = "unknown"
    name: str
    """Its type in the file."""
    fields: Mapping[str, Any]


Known = (
    RunStarted
    | Resumed
    | SandboxStarted
    | Rewound
    | Forked
    | MessageAdded
    | CallStarted
    | CallChanged
    | Observation
    | StageStarted
    | Judged
    | SnapshotTaken
    | TurnEnded
    | Notice
    | Stopped
)
Event = Known | Unknown

TYPES: Mapping[str, type[Known]] = {kind.type: kind for kind in get_args(Known)}


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

    def __init__(self, file: LineFile, listener: Listener, *, seq: int = 0) -> None:
        """`seq` is how many events the file holds already."""
        self._file = file
        self._at = (seq, file.size)
        """The number of the next event, and where the file ended when that was known."""
        self.listener = listener

    def add(self, event: Known) -> None:
        """Append an event and tell the listener.

        Raises:
            DiskError: it could not be written; the file still ends with a whole line.
        """
        seq, end = self._at
        if self._file.size > end:  # a signal came when the last line stood already and before that was noted
            self._at = (seq + 1, self._file.size)
        self._file.append(line(event, self._at[0], datetime.now(UTC)))
        self._at = (self._at[0] + 1, self._file.size)
        self.listener.on_event(event)


def line(event: Known, seq: int, when: datetime) -> bytes:
    """Return the event as a line of the file, without its newline."""
    head = {"schema": SCHEMA, "seq": seq, "time": when.isoformat(), "type": event.type}
    text = json.dumps(head | dataclasses.asdict(event), ensure_ascii=False, default=str)
    return text.encode("utf-8", "backslashreplace")


def as_json_object(event: Event) -> dict[str, Any]:
    """Return the event's fields with its type."""
    return {"type": event.type, **dataclasses.asdict(event)}
