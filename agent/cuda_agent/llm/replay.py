"""The model of a recorded run: it says again what was said, whatever it is told this time."""

from collections.abc import Iterable
from dataclasses import replace

from cuda_agent.history import standing
from cuda_agent.llm.model import Reply, ToolCall, Usage
from cuda_agent.llm.scripted import ScriptedModel
from cuda_agent.trajectory import CallChanged, Event, MessageAdded

END = "the record ends here"


def recorded(events: Iterable[Event]) -> list[Reply]:
    """Return the replies that count, in order: without those that were gone back over, and with a person's changes."""
    found: list[Reply] = []
    for event in standing(list(events)):
        if isinstance(event, MessageAdded) and event.role == "assistant":
            found.append(reply_of(event))
        elif isinstance(event, CallChanged) and found:
            changed = tuple(_changed(call, event) for call in found[-1].tool_calls)
            found[-1] = replace(found[-1], tool_calls=changed)
    return found


def replay_model(replies: Iterable[Reply], *, name: str) -> ScriptedModel:
    """Return a model that gives these replies and then gives up."""
    return ScriptedModel([*replies, Reply(gave_up=END)], name=f"replay of {name}")


def reply_of(event: MessageAdded) -> Reply:
    """Return the reply that an event recorded."""
    usage = event.usage or {}
    return Reply(
        text=event.content,
        tool_calls=tuple(ToolCall(**call) for call in event.tool_calls),
        usage=Usage(**{key: usage[key] for key in usage if key in Usage.__dataclass_fields__}),
        finish_reason=event.finish_reason or "stop",  # type: ignore[arg-type]  # written from such a value
        reasoning=event.reasoning,
        refusal=event.refusal,
        gave_up=event.gave_up,
        provider=dict(event.provider),
    )


def _changed(call: ToolCall, event: CallChanged) -> ToolCall:
    return ToolCall(event.id, event.name, event.arguments) if call.id == event.id else call
