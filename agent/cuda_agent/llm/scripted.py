"""A model that says what it was told to say: for tests of everything around a model, and for demonstrations.

An entry of the script is a `Reply`, an exception to raise, or a function of the request that returns either.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuda_agent.errors import ConfigError, ModelError
from cuda_agent.llm.model import Message, Reply, ToolCall, ToolSpec


@dataclass(frozen=True)
class Request:
    """What the model was asked."""

    messages: Sequence[Message]
    tools: Sequence[ToolSpec]

    @property
    def last(self) -> Message:
        """The newest message."""
        return self.messages[-1]

    def answer_to(self, call_id: str) -> str:
        """Return the newest observation of a call.

        Raises:
            LookupError: there is none.
        """
        for message in reversed(self.messages):
            if message.tool_call_id == call_id:
                return message.content
        raise LookupError(f"no observation of the call {call_id!r}")


Entry = Reply | Exception | Callable[[Request], Reply | Exception]


class ScriptedModel:
    """Goes through a list of entries, one a request."""

    def __init__(self, script: Sequence[Entry], *, name: str = "scripted") -> None:
        self.name = name
        self._script = list(script)
        self.requests: list[Request] = []

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Reply:
        """Return the next entry.

        Raises:
            ModelError: the script is exhausted.
        """
        self.requests.append(Request(tuple(messages), tuple(tools)))
        number = len(self.requests)
        if number > len(self._script):
            raise ModelError(
                f"The script of {self.name!r} has {len(self._script)} entries and was asked for number {number};"
                " add an entry or lower --max-turns."
            )
        entry = self._script[number - 1]
        answer = entry(self.requests[-1]) if callable(entry) else entry
        if isinstance(answer, Exception):
            raise answer
        return answer


def from_file(path: Path) -> ScriptedModel:
    """Read a script: a JSON list of {"text", "calls": [{"name", "arguments"}], "gave_up", "refusal"}.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(entries, list):
            raise ValueError("not a list")
        return ScriptedModel([_reply(number, entry) for number, entry in enumerate(entries, start=1)])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"The script {str(path)!r} cannot be read ({error!r}); it must be a JSON list of replies."
        ) from error


def _reply(number: int, entry: dict[str, Any]) -> Reply:
    unknown = entry.keys() - {"text", "calls", "gave_up", "refusal"}
    if unknown:
        raise ValueError(f"unknown key {sorted(unknown)[0]!r} in reply {number}")
    calls = tuple(
        ToolCall(f"call-{number}-{place}", call["name"], call["arguments"])
        for place, call in enumerate(entry.get("calls", []), start=1)
    )
    return Reply(
        text=entry.get("text", ""),
        tool_calls=calls,
        finish_reason="tool_calls" if calls else "stop",
        refusal=entry.get("refusal"),
        gave_up=entry.get("gave_up"),
    )
