"""The model of a recorded run: it says again what was said, whatever it is told this time."""

from collections.abc import Iterable

from cuda_agent.history import standing
from cuda_agent.llm.model import Reply, ToolCall, Usage
from cuda_agent.llm.scripted import ScriptedModel
from cuda_agent.trajectory import Event, MessageAdded

END = "the record ends here"


def recorded(events: Iterable[Event]) -> list[Reply]:
    """Return the replies of a run that still count, in order."""
    counting = standing(list(events))
    return [reply_of(event) for event in counting if isinstance(event, MessageAdded) and event.role == "assistant"]


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
