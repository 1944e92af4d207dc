"""Events of a run in full, for reading."""

from collections.abc import Mapping
from typing import Any

from cuda_agent.trajectory import CallStarted, Event, Judged, MessageAdded, Notice, Observation, RunStarted, Stopped


def lines(event: Event) -> list[str]:
    """Return everything a person may want to read of an event."""
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
            return [f"\n--- turn {event.turn}: verdict {event.report['status']}: {event.report.get('reason', '')}"]
        case Notice():
            return [f"--- {event.text}"]
        case Stopped():
            return [f"\n=== stopped: {event.reason} {event.detail}".rstrip(), ""]
        case _:
            return []


def _arguments(arguments: Mapping[str, Any]) -> list[str]:
    return [f"{key}: {value}" for key, value in arguments.items()]
