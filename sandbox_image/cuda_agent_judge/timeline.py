"""One recorded call, read from the events of torch's profiler (Chrome's trace format): what ran when, and gaps.

Times are in microseconds. Knows nothing of torch: the events are data.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

CALL = "cuda_agent_call"
"""The name of the range that holds the call."""
MAX_ROWS = 12
_MAX_NAME = 400
_MAX_AMOUNT = 1e15
_ON_DEVICE = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "fill"}
_LAUNCHES = frozenset({"cuda_runtime", "cuda_driver"})
Event = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """Launches of one kernel with one shape, or calls of one operation."""

    name: str
    kind: str
    """"kernel", "copy" or "fill" on the device; "operation" on the host."""
    calls: int
    us: float
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    registers: int = 0
    shared_bytes: int = 0
    """Static and dynamic."""

    def to_json(self) -> dict[str, Any]:
        """As a frame carries it."""
        return {
            "name": self.name,
            "kind": self.kind,
            "calls": self.calls,
            "us": self.us,
            "grid": list(self.grid),
            "block": list(self.block),
            "registers": self.registers,
            "shared_bytes": self.shared_bytes,
        }


@dataclass(frozen=True)
class Timeline:
    """A call as it ran."""

    rows: tuple[Row, ...]
    """By time, longest first."""
    span_us: float
    """On the device from the first start to the last end; on the host the whole call."""
    busy_us: float
    """Of the span, how long anything of `rows` ran."""
    launches: int
    left_out: int = 0
    """Rows that are not carried along."""

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> "Timeline":
        """Read what the candidate worker says: information of its own making, held to its form.

        Raises:
            ValueError, TypeError, KeyError, AttributeError: it has none.
        """
        rows = tuple(_row(entry) for entry in raw["rows"][:MAX_ROWS])
        launches = int(_amount(raw["launches"]))
        return cls(rows, _amount(raw["span_us"]), _amount(raw["busy_us"]), launches, int(_amount(raw["left_out"])))

    def to_json(self) -> dict[str, Any]:
        """As a frame carries it."""
        rows = [row.to_json() for row in self.rows[:MAX_ROWS]]
        times = {"span_us": self.span_us, "busy_us": self.busy_us}
        left_out = self.left_out + max(0, len(self.rows) - MAX_ROWS)
        return {"rows": rows, **times, "launches": self.launches, "left_out": left_out}


def device_timeline(events: Sequence[Event]) -> Timeline:
    """What the call put on the device: everything that a launch inside its range started."""
    within = _in_call(events)
    started = {_correlation(event) for event in within if event.get("cat") in _LAUNCHES}
    ran = [event for event in events if _category(event) in _ON_DEVICE and _correlation(event) in started]
    rows = _grouped([_launch(event) for event in ran])
    spans = [_span(event) for event in ran]
    span = max(end for _, end in spans) - min(start for start, _ in spans) if spans else 0.0
    return Timeline(rows, span, _covered(spans), len(ran))


def host_timeline(events: Sequence[Event], own: str) -> Timeline:
    """Which operations of the namespace `own` the call made, and how long each took."""
    calls = [event for event in events if event.get("name") == CALL and event.get("cat") == "user_annotation"]
    made = [e for e in _in_call(events) if e.get("cat") == "cpu_op" and str(e.get("name")).startswith(own + "::")]
    rows = _grouped([Row(str(event["name"]).partition("::")[2], "operation", 1, _us(event)) for event in made])
    return Timeline(rows, sum(map(_us, calls)), _covered([_span(event) for event in made]), len(made))


def _in_call(events: Iterable[Event]) -> list[Event]:
    events = list(events)
    ranges = [_span(e) for e in events if e.get("name") == CALL and e.get("cat") == "user_annotation"]
    timed = [e for e in events if "ts" in e and "dur" in e and e.get("name") != CALL]
    return [e for e in timed if any(start <= _span(e)[0] <= end for start, end in ranges)]


def _launch(event: Event) -> Row:
    given = event.get("args", {})
    return Row(
        str(event.get("name", "")),
        _ON_DEVICE[_category(event)],
        1,
        _us(event),
        tuple(int(n) for n in given.get("grid", ())),
        tuple(int(n) for n in given.get("block", ())),
        int(given.get("registers per thread", 0)),
        int(given.get("shared memory", 0)),
    )


def _grouped(rows: Sequence[Row]) -> tuple[Row, ...]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.kind, row.name, row.grid, row.block, row.shared_bytes), []).append(row)
    made = [
        Row(
            one.name, one.kind, len(all_), sum(r.us for r in all_), one.grid, one.block, one.registers, one.shared_bytes
        )
        for all_ in groups.values()
        for one in all_[:1]
    ]
    return tuple(sorted(made, key=lambda row: -row.us))


def _row(raw: Mapping[str, Any]) -> Row:
    name, kind = raw["name"], raw["kind"]
    if not isinstance(name, str) or kind not in ("operation", *_ON_DEVICE.values()):
        raise ValueError("a row of what ran is malformed")
    shown = "".join(char if char.isprintable() else "?" for char in name[:_MAX_NAME])
    grid, block = (tuple(int(_amount(n)) for n in raw[key][:3]) for key in ("grid", "block"))
    counts = (int(_amount(raw[key])) for key in ("registers", "shared_bytes"))
    return Row(shown, kind, int(_amount(raw["calls"])), _amount(raw["us"]), grid, block, *counts)


def _amount(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _MAX_AMOUNT:
        raise ValueError(f"{str(value)[:40]!r} is no amount")
    return float(value)


def _covered(spans: Iterable[tuple[float, float]]) -> float:
    """How long at least one of the spans lasts."""
    covered, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        covered += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return covered


def _span(event: Event) -> tuple[float, float]:
    start = float(event["ts"])
    return start, start + float(event["dur"])


def _us(event: Event) -> float:
    return float(event["dur"])


def _category(event: Event) -> str:
    return str(event.get("cat", "")).lower()


def _correlation(event: Event) -> Any:
    return event.get("args", {}).get("correlation")
