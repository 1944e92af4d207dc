"""The Model protocol and the messages it speaks. No provider's type appears here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

Role = Literal["system", "user", "assistant", "tool"]
FinishReason = Literal["stop", "tool_calls", "length", "content_filter"]


@dataclass(frozen=True)
class ToolCall:
    """One call as the model wrote it."""

    id: str
    name: str
    arguments: Mapping[str, Any] | None
    """The parsed arguments; None when `raw_arguments` is not a JSON object."""
    raw_arguments: str = ""
    """The text as it came, kept for the answer to a malformed call."""


@dataclass(frozen=True)
class Message:
    """One message of the conversation."""

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    """Assistant only."""
    tool_call_id: str | None = None
    """Tool only: the call this answers."""
    reasoning: str = ""
    provider: Mapping[str, Any] = field(default_factory=dict)
    """What the provider wants back unchanged (thinking blocks, signatures); opaque to everyone else."""


@dataclass(frozen=True)
class Usage:
    """Tokens of one reply. A price of None is unknown; 0 is known to be free."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float | None = None


@dataclass(frozen=True)
class Reply:
    """What the model answered."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    finish_reason: FinishReason = "stop"
    reasoning: str = ""
    refusal: str | None = None
    """The provider refused to answer, and why."""
    gave_up: str | None = None
    """The model says that it has nothing more to try, and why."""
    provider: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ToolSpec:
    """A tool as the model is told of it."""

    name: str
    description: str
    parameters: Mapping[str, Any]


class Model(Protocol):
    """Anything that can take the next turn."""

    name: str

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Reply:
        """Answer the conversation.

        Raises:
            ContextOverflow: the conversation is longer than the model takes.
            ModelError: the provider failed after our retries.
        """
        ...


@runtime_checkable
class RemoteModel(Protocol):
    """A model that others answer for: it waits for them no longer than the run has time, and says so."""

    def attach(self, *, time_left: Callable[[], float], notify: Callable[[str], None]) -> None:
        """Say how many seconds an answer may take from now on, and who hears what is waited for."""
        ...
