"""Events of a run in full, for reading."""

from collections.abc import Mapping, Sequence
from typing import Any

from cuda_agent.cli.terminal import plain
from cuda_agent.trajectory import CallStarted, Event, Judged, MessageAdded, Notice, Observation, RunStarted, Stopped

_MARKS = {"completed": "x", "in_progress": ">"}


def lines(event: Event) -> list[str]:
    """Return everything a person may want to read of an event, without what a terminal would obey."""
    return [plain(line) for line in _lines(event)]


def _lines(event: Event) -> list[str]:
    match event:
        case RunStarted():
            return [f"=== run of {event.operator} by {event.model}"]
        case MessageAdded():
            said = [event.content] if event.content else []
            ended = [f"({word})" for word in (event.refusal, event.gave_up) if word]
            return [f"\n--- turn {event.turn}: {event.role}", *said, *ended]
        case CallStarted():
            return [f"\n--- turn {event.turn}: call {event.name} ({event.id})", *_arguments(event.arguments or {})]
        case Observation():
            return [f"--- turn {event.turn}: {'error of' if event.is_error else 'answer to'} {event.id}", event.text]
        case Judged():
            return _verdict(event.turn, event.report)
        case Notice():
            return [f"--- {event.text}"]
        case Stopped():
            return [f"\n=== stopped: {event.reason} {event.detail}".rstrip(), ""]
        case _:
            return []


def _verdict(turn: int, report: Mapping[str, Any]) -> list[str]:
    kind = "final verdict" if report.get("final") else "verdict"
    details = [report["details"]] if report.get("details") else []
    return [f"\n--- turn {turn}: {kind} {report['status']}: {report.get('reason', '')}", *details]


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
            shown.append(f"  [{_MARKS.get(item.get('status', ''), ' ')}] {item['content']}")
        elif "old_string" in item and "new_string" in item:
            shown += [f"  - {line}" for line in str(item["old_string"]).splitlines()]
            shown += [f"  + {line}" for line in str(item["new_string"]).splitlines()]
        else:
            shown.append(f"  {dict(item)}")
    return shown
