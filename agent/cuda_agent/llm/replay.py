"""The model of a recorded run: it says again what was said, whatever it is told this time."""

from collections.abc import Iterable

from cuda_agent.llm.model import Reply, ToolCall, Usage
from cuda_agent.llm.scripted import ScriptedModel
from cuda_agent.trajectory import Event, MessageAdded

END = "the record ends here"


def recorded(events: Iterable[Event]) -> list[Reply]:
    """Return the replies of a run, in order."""
    return [_reply(event) for event in events if isinstance(event, MessageAdded) and event.role == "assistant"]


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
