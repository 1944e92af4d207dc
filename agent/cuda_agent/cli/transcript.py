"""Events of a run in full, for reading."""

from collections.abc import Mapping, Sequence
from typing import Any

from cuda_agent.terminal import box, plain
from cuda_agent.trajectory import (
    CallChanged,
    CallStarted,
    Event,
    Forked,
    Judged,
    MessageAdded,
    Notice,
    Observation,
    Resumed,
    Rewound,
    RunStarted,
    Stopped,
)


def lines(event: Event) -> list[str]:
    """Return everything a person may want to read of an event, without what a terminal would obey."""
    return [plain(line) for line in _lines(event)]


def _lines(event: Event) -> list[str]:
    match event:
        case MessageAdded():
            said = [event.content] if event.content else []
            ended = [f"({word})" for word in (event.refusal, event.gave_up) if word]
            by = f" (by a {event.by})" if event.by else ""
            return [f"\n--- turn {event.turn}: {event.role}{by}", *said, *ended]
        case CallStarted() | CallChanged():
            what = "call changed to" if isinstance(event, CallChanged) else "call"
            by = f" by a {event.by}" if event.by else ""
            head = f"\n--- turn {event.turn}: {what} {event.name} ({event.id}){by}"
            return [head, *_arguments(event.arguments or {})]
        case Observation():
            return [f"--- turn {event.turn}: {'error of' if event.is_error else 'answer to'} {event.id}", event.text]
        case Judged():
            return _verdict(event.turn, event.report)
        case Notice():
            return [f"--- {event.text}"]
        case _:
            return _course(event)


def _course(event: Event) -> list[str]:
    """Where a run began, went on, went back and ended."""
    match event:
        case RunStarted():
            parent = f", from turn {event.parent['turn']} of {event.parent['run']}" if event.parent else ""
            return [f"=== run of {event.operator} by {event.model}{parent}"]
        case Resumed():
            return [f"\n=== goes on after turn {event.turn} by {event.model}"]
        case Rewound():
            return [f"\n=== back from turn {event.left} to the end of turn {event.turn}"]
        case Forked():
            return [f"\n=== forked at the end of turn {event.turn} by {event.model}: {event.run}"]
        case Stopped():
            return [f"\n=== stopped: {event.reason} {event.detail}".rstrip(), ""]
        case _:
            return []


def _verdict(turn: int, report: Mapping[str, Any]) -> list[str]:
    kind = "final verdict" if report.get("final") else "verdict"
    details = [report["details"]] if report.get("details") else []
    lines = (report.get("performance") or {}).get("lines", [])
    return [f"\n--- turn {turn}: {kind} {report['status']}: {report.get('reason', '')}", *details, *lines]


def _arguments(arguments: Mapping[str, Any]) -> list[str]:
    shown: list[str] = []
    for key, value in arguments.items():
        if isinstance(value, list) and all(isinstance(item, Mapping) for item in value):
            shown += [f"{key}:", *_items(value)]
        else:
            shown.append(f"{key}: {value}")
    return shown


def _items(items: Sequence[Mapping[str, Any]]) -> list[str]:
    """Show a plan as a list to tick off, edits as what goes and what comes, and anything else as it is."""
    shown: list[str] = []
    for item in items:
        if "content" in item:
            shown.append(f"  {box(item.get('status'))} {item['content']}")
        elif "old_string" in item and "new_string" in item:
            shown += [f"  - {line}" for line in str(item["old_string"]).splitlines()]
            shown += [f"  + {line}" for line in str(item["new_string"]).splitlines()]
        else:
            shown.append(f"  {dict(item)}")
    return shown
