"""What of a conversation is sent: all of it while it fits, then less, oldest first.

First the outputs of old calls shrink to head, tail and the path of the whole text. Where that is not enough old turns
are left out whole, so that a call never loses its answer; what they tried stands in a ledger behind the task. The
conversation itself stays as it is. Much is taken out at a time, because a prefix that stays the same is cached.
"""

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from cuda_agent.errors import ContextOverflow
from cuda_agent.llm.model import Message, Model, Reply, ToolSpec

_FULL, _GOAL = 0.9, 0.6
"""Of the limit: so much is sent at most (the rest is the reply's), and so much is left when something is taken out."""
_AFTER_OVERFLOW = 0.6
"""Of what the model found too long."""
_KEPT_TURNS = 3
"""The newest turns are sent as they are, unless there is no other way."""
_ELIDED_FROM = 1_200
_SHOWN = 400
"""Characters of an elided text's head and of its tail."""
_CHARS_PER_TOKEN = 3.0
"""Before the provider has counted: code has more tokens than prose."""
_LEAST, _MOST = 1.5, 5.0
_LEDGER_CHARS = 6_000
_SAID = 140
_OUTCOME = re.compile(
    r"^(\[(?:PASS|FAIL)\].*|Torch Baseline: .*|.*\berror: .*|Status: .*|The judge.*|.*[Vv]erdict.*)$", re.MULTILINE
)

Sent = tuple[Message, ...]
Keep = Callable[[str], str]
"""Stores a text where the model can read it and returns its path."""


@dataclass(frozen=True)
class _Turn:
    """A reply with the answers to its calls and what the runtime said after it."""

    number: int
    messages: tuple[Message, ...]


class Context:
    """Keeps what is sent to one model below its limit."""

    def __init__(
        self,
        limit_tokens: float,
        *,
        keep: Keep = lambda text: "",
        notify: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._limit_tokens = limit_tokens
        self._keep = keep
        self._notify = notify
        self._chars_per_token = _CHARS_PER_TOKEN
        self._elided = 0
        """So many of the oldest turns have their outputs shortened, ..."""
        self._dropped = 0
        """... and so many are left out."""
        self._ledger = ""
        self._paths: dict[str, str] = {}

    def ask(self, model: Model, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Reply:
        """Send what fits and learn from the provider's count; what it finds too long is shortened and sent again.

        Raises:
            ContextOverflow: nothing more can be left out.
            ModelError: the provider failed.
        """
        if math.isinf(self._limit_tokens):
            return model.complete(tuple(messages), tools)
        while True:
            sent = self.fit(messages, tools)
            chars = _size(sent) + _size_of_tools(tools)
            try:
                reply = model.complete(sent, tools)
            except ContextOverflow:
                self._limit_tokens = _AFTER_OVERFLOW * chars / self._chars_per_token / _FULL
                if _size(self.fit(messages, tools)) >= _size(sent):
                    raise
                continue
            if reply.usage.input_tokens > 0:
                self._chars_per_token = min(_MOST, max(_LEAST, chars / reply.usage.input_tokens))
            return reply

    def fit(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> Sent:
        """Return what is to be sent."""
        room = self._limit_tokens * self._chars_per_token
        taken = _size_of_tools(tools)
        head, turns = _split(messages)
        if self._dropped >= len(turns):
            self._dropped = self._elided = 0  # the conversation went back to before what was left out
        sent = self._sent(head, turns)
        if _size(sent) + taken <= _FULL * room:
            return sent
        before = _size(sent)
        for kept in (_KEPT_TURNS, 1):
            sent = self._elide(head, turns, len(turns) - kept, _GOAL * room - taken)
            if _size(sent) + taken > _FULL * room:
                sent = self._drop(head, turns, len(turns) - kept, _GOAL * room - taken)
            if _size(sent) + taken <= _FULL * room:
                break
        self._notify(
            f"The conversation sent is shortened from {before:,} to {_size(sent):,} characters:"
            f" {self._dropped} turns left out, outputs of {max(0, self._elided - self._dropped)} more cut."
        )
        return sent

    def _elide(self, head: Sequence[Message], turns: Sequence[_Turn], most: int, goal_chars: float) -> Sent:
        sent = self._sent(head, turns)
        while _size(sent) > goal_chars and self._elided < most:
            self._elided += 1
            sent = self._sent(head, turns)
        return sent

    def _drop(self, head: Sequence[Message], turns: Sequence[_Turn], most: int, goal_chars: float) -> Sent:
        sent = self._sent(head, turns)
        while _size(sent) > goal_chars and self._dropped < most:
            self._dropped += 1
            self._ledger = ledger([message for turn in turns[: self._dropped] for message in turn.messages])
            sent = self._sent(head, turns)
        return sent

    def _sent(self, head: Sequence[Message], turns: Sequence[_Turn]) -> Sent:
        sent = list(head)
        if self._dropped and sent:
            # Behind the task and not as a message of its own: some providers insist on roles that alternate.
            sent[-1] = replace(sent[-1], content=f"{sent[-1].content}\n\n{self._ledger}")
        for place, turn in enumerate(turns[self._dropped :], start=self._dropped):
            sent += [self._cut(one) for one in turn.messages] if place < self._elided else turn.messages
        return tuple(sent)

    def _cut(self, message: Message) -> Message:
        text = message.content
        if message.role != "tool" or len(text) <= _ELIDED_FROM:
            return message
        if text not in self._paths:
            self._paths[text] = self._keep(text)
        where = f"; the whole text: {self._paths[text]}" if self._paths[text] else ""
        left_out = len(text) - 2 * _SHOWN
        note = f"[... {left_out:,} characters of this old output left out{where} ...]"
        return replace(message, content=f"{text[:_SHOWN]}\n{note}\n{text[-_SHOWN:]}")


def ledger(messages: Sequence[Message], limit: int = _LEDGER_CHARS) -> str:
    """Return what was tried: of each turn its number, what was said, what changed, how it came out."""
    rows = [_row(turn) for turn in _split(messages)[1]]
    told = [row for row in rows if row]
    text = "\n".join(told)
    while len(text) > limit and len(told) > 1:
        told = told[1:]  # the newest attempts are worth more than the oldest
        text = "\n".join(told)
    missing = len([row for row in rows if row]) - len(told)
    more = f"({missing} older attempts are not listed.)\n" if missing else ""
    return f"# What you did so far (older turns are left out)\n\n{more}{text}"


def _row(turn: _Turn) -> str:
    said = " ".join(turn.messages[0].content.split())[:_SAID]
    changed = sorted(
        {str(path) for call in turn.messages[0].tool_calls if (path := (call.arguments or {}).get("file_path"))}
    )
    outcomes = [found[0].strip()[:_SAID] for one in turn.messages[1:] if (found := _OUTCOME.findall(one.content)[-1:])]
    parts = [said, f"changed {', '.join(changed)}" if changed else "", *outcomes]
    told = "; ".join(part for part in parts if part)
    return f"- turn {turn.number}: {told}" if changed or outcomes else ""


def _split(messages: Sequence[Message]) -> tuple[list[Message], list[_Turn]]:
    """Return what stands before the first reply, and the turns."""
    starts = [place for place, message in enumerate(messages) if message.role == "assistant"]
    turns = [
        _Turn(number, tuple(messages[start:end]))
        for number, (start, end) in enumerate(pairwise([*starts, len(messages)]), start=1)
    ]
    return list(messages[: starts[0]] if starts else messages), turns


def _size(messages: Sequence[Message]) -> int:
    """Count the characters that are sent."""
    return sum(_message_size(message) for message in messages)


def _message_size(message: Message) -> int:
    calls = sum(
        len(call.name) + len(call.id) + (len(call.raw_arguments) or len(json.dumps(call.arguments, default=str)))
        for call in message.tool_calls
    )
    provider = len(json.dumps(message.provider, default=str)) if message.provider else 0
    return 20 + len(message.content) + len(message.reasoning) + calls + provider


def _size_of_tools(tools: Sequence[ToolSpec]) -> int:
    return sum(len(tool.description) + len(json.dumps(dict(tool.parameters), default=str)) for tool in tools)
