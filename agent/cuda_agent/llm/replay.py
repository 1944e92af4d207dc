"""The model of a recorded run: it says again what was said, whatever it is told this time."""

from collections.abc import Iterable
from dataclasses import replace

from cuda_agent.llm.model import Reply, ToolCall, Usage
from cuda_agent.llm.scripted import ScriptedModel
from cuda_agent.trajectory import CallChanged, Event, MessageAdded, Rewound

END = "the record ends here"


def recorded(events: Iterable[Event]) -> list[Reply]:
    """Return the replies that count, in order: without those that were gone back over, and with a person's changes."""
    found: list[tuple[int, Reply]] = []
    for event in events:
        if isinstance(event, MessageAdded) and event.role == "assistant":
            found.append((event.turn, _reply(event)))
        elif isinstance(event, Rewound):
            found = [(turn, reply) for turn, reply in found if turn <= event.turn]
        elif isinstance(event, CallChanged) and found:
            turn, reply = found[-1]
            found[-1] = turn, replace(reply, tool_calls=tuple(_changed(call, event) for call in reply.tool_calls))
    return [reply for _, reply in found]


def replay_model(replies: Iterable[Reply], *, name: str) -> ScriptedModel:
    """Return a model that gives these replies and then gives up."""
    return ScriptedModel([*replies, Reply(gave_up=END)], name=f"replay of {name}")


def _reply(event: MessageAdded) -> Reply:
    usage = event.usage or {}
    return Reply(
        text=event.content,
        tool_calls=tuple(ToolCall(**call) for call in event.tool_calls),
        usage=Usage(**usage),
        finish_reason=event.finish_reason or "stop",  # type: ignore[arg-type]  # written from such a value
        reasoning=event.reasoning,
        refusal=event.refusal,
        gave_up=event.gave_up,
        provider=dict(event.provider),
    )


def _changed(call: ToolCall, event: CallChanged) -> ToolCall:
    return ToolCall(event.id, event.name, event.arguments) if call.id == event.id else call
