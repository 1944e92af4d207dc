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
    """Goes through a list of entries, one a request; where the conversation went back, the list does too."""

    def __init__(self, script: Sequence[Entry], *, name: str = "scripted", replies: int = 0) -> None:
        """`replies` is how many entries were used up before."""
        self.name = name
        self._script = list(script)
        self.requests: list[Request] = []
        self._next = replies
        self._places: dict[int, int] = {}
        """By the number of replies in a request: which entry answered it first."""
        self._first = (0, replies)
        """How many replies the first request held, and the entry that answered it."""

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Reply:
        """Return the next entry.

        Raises:
            ModelError: the script is exhausted.
        """
        self.requests.append(Request(tuple(messages), tuple(tools)))
        number = self._place(sum(message.role == "assistant" for message in messages)) + 1
        self._next = number
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

    def _place(self, before: int) -> int:
        """Return which entry comes next, where the conversation holds this many replies."""
        if not self._places:
            self._first = (before, self._next)
        if any(count > before for count in self._places):
            replies, place = self._first
            place = self._places.get(before, max(0, place - (replies - before)))
            self._places = {count: entry for count, entry in self._places.items() if count < before}
        else:
            place = self._next
        self._places.setdefault(before, place)
        return place


def from_file(path: Path, *, replies: int = 0) -> ScriptedModel:
    """Read a script: a JSON list of {"text", "calls": [{"name", "arguments"}], "gave_up", "refusal"}.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(entries, list):
            raise ValueError("not a list")
        script = [_reply(number, entry) for number, entry in enumerate(entries, start=1)]
        return ScriptedModel(script, replies=replies)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        said = error.strerror if isinstance(error, OSError) else repr(error)
        raise ConfigError(
            f"The script {str(path)!r} cannot be read ({said}); it must be a JSON list of replies."
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
