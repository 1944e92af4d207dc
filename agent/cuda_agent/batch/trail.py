"""Reads trajectories of runs while other processes write them: only what is new, and only whole lines."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_HEAD = re.compile(rb'\{"schema": \d+, "seq": \d+, "time": "([^"]{1,40})", "type": "(\w+)"')
_CHUNK_BYTES = 1 << 20
_SEGMENT_BEGINS = frozenset({b"run_started", b"resumed", b"rewound"})


class Trail:
    """One trajectory, read from where it was left; what it holds in memory is one chunk and one unfinished line."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._offset = 0

    def new_lines(self) -> Iterator[bytes]:
        """Yield the lines that were written since the last call."""
        try:
            with open(self._file, "rb") as file:
                yield from self._lines(file.fileno())
        except OSError:
            return  # not there yet, or no more

    def _lines(self, descriptor: int) -> Iterator[bytes]:
        rest = b""
        with open(descriptor, "rb", closefd=False) as file:
            file.seek(self._offset)
            while chunk := file.read(_CHUNK_BYTES):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._offset += len(line) + 1
                    yield line

    def new_events(self) -> Iterator[dict[str, Any]]:
        """Yield the events that were written since the last call, as they stand in the file."""
        for line in self.new_lines():
            with suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict):
                    yield event


@dataclass
class Account:
    """What a run used up, by its own trajectory."""

    spans: list[tuple[float, float]] = field(default_factory=list)
    """When a process was at work on it: from and to, in seconds of UTC."""
    held: dict[str, float] = field(default_factory=dict)
    """By what was held or waited for (gpu_s, gpu_wait_s, build_s, ...), in seconds, over all verdicts."""
    last_verdict: dict[str, Any] | None = None
    """Status, reason, rules and isolation of the last one."""

    @property
    def work_s(self) -> float:
        """Time in which a process was at work on it."""
        return sum(end - begin for begin, end in self.spans)


def account_of(file: Path) -> Account:
    """Read a run's account; most lines are looked at, not parsed."""
    account = Account()
    begin = last = None
    for line in Trail(file).new_lines():
        head = _HEAD.match(line)
        if head is None:
            continue
        when, kind = _time(head[1]), head[2]
        if kind in _SEGMENT_BEGINS or begin is None:
            account.spans += _span(begin, last)
            begin = when
        last = when or last
        if kind == b"verdict":
            with suppress(ValueError, TypeError, AttributeError):
                _add(account, json.loads(line)["report"])
    account.spans += _span(begin, last)
    return account


def _add(account: Account, report: Mapping[str, Any]) -> None:
    for key, value in (report.get("held") or {}).items():
        if isinstance(value, int | float):
            account.held[key] = account.held.get(key, 0.0) + value
    kept = ("status", "reason", "rules", "isolation", "target", "environment")
    account.last_verdict = {key: report.get(key) for key in kept}


def _span(begin: datetime | None, end: datetime | None) -> list[tuple[float, float]]:
    return [(begin.timestamp(), end.timestamp())] if begin and end and begin <= end else []


def _time(text: bytes) -> datetime | None:
    try:
        when = datetime.fromisoformat(text.decode())
    except ValueError:
        return None
    return when if when.tzinfo else when.replace(tzinfo=UTC)
