"""What a person may do to a run between its steps. Each is written down as a person's.

A provider wants the answers to a reply's calls right behind it, so `say` belongs between two turns.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from cuda_agent.judging import Submission
from cuda_agent.llm.model import Message, ToolCall, ToolSpec
from cuda_agent.loop.agent import Agent
from cuda_agent.loop.calls import Calls
from cuda_agent.loop.keeping import Keeping
from cuda_agent.loop.referee import Referee
from cuda_agent.trajectory import CallChanged, MessageAdded, Notice, Observation, Trajectory
from cuda_agent_judge.report import Report
from cuda_agent_tools.tool import ToolResult

PERSON = "person"
_INTERRUPTED = (
    "Interrupted by a person while it ran: all it started was killed, and what it had done until then stands."
)


class Person:
    """The hand of a person in one run."""

    def __init__(
        self,
        agent: Agent,
        calls: Calls,
        referee: Referee,
        trajectory: Trajectory,
        keeping: Keeping,
    ) -> None:
        self._agent = agent
        self._calls = calls
        self._referee = referee
        self._trajectory = trajectory
        self._keeping = keeping
        self._made = 0

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """What may be called."""
        return self._calls.specs

    def submission(self) -> Submission:
        """Keep the workspace as it is now and return the submission in it.

        Raises:
            WorkspaceError, DiskError, SandboxLost: the workspace could not be kept.
        """
        return self._keeping.keep(self._agent.turn).submission

    def say(self, text: str) -> None:
        """Put a person's message into the conversation; no call may be unanswered."""
        self._agent.messages.append(Message("user", text))
        self._trajectory.add(MessageAdded(self._agent.turn, "user", text, by=PERSON))

    def note(self, text: str) -> None:
        """Write down what a person decided; the model does not see it."""
        self._trajectory.add(Notice(self._agent.turn, text))

    def change(self, place: int, name: str, arguments: Mapping[str, Any]) -> ToolCall:
        """Replace the call at this place (from 0) of the last reply: the conversation holds what will run."""
        at = max(n for n, message in enumerate(self._agent.messages) if message.role == "assistant")
        message = self._agent.messages[at]
        old = message.tool_calls[place]
        new = ToolCall(old.id, name, dict(arguments), json.dumps(arguments, ensure_ascii=False))
        made = (*message.tool_calls[:place], new, *message.tool_calls[place + 1 :])
        was = {"name": old.name, "arguments": old.arguments, "raw_arguments": old.raw_arguments}
        self._trajectory.add(CallChanged(self._agent.turn, old.id, name, new.arguments, was, PERSON))
        self._agent.messages[at] = dataclasses.replace(message, tool_calls=made)
        return new

    def interrupted(self, call: ToolCall) -> Observation:
        """Answer a call that a person interrupted."""
        observation = self._calls.record(self._agent.turn, call, ToolResult(_INTERRUPTED, is_error=True), 0.0)
        self._agent.messages.append(Message("tool", observation.text, tool_call_id=call.id))
        return observation

    def perform(self, name: str, arguments: Mapping[str, Any]) -> Observation:
        """Make a call of one's own; it is no part of the conversation.

        Raises:
            SandboxLost: the sandbox is gone.
            KeyboardInterrupt: the person interrupted it; that is written down too.
        """
        self._made += 1
        call = ToolCall(f"{PERSON}-{self._agent.turn}-{self._made}", name, dict(arguments))
        try:
            return self._calls.answer(self._agent.turn, call, by=PERSON)
        except KeyboardInterrupt:
            self._calls.record(self._agent.turn, call, ToolResult(_INTERRUPTED, is_error=True), 0.0, by=PERSON)
            raise

    def judge(self) -> Report | None:
        """Take a verdict on what is in the workspace now; None where nothing is there to judge.

        Raises:
            JudgeError: the judge itself failed.
            SandboxLost: the sandbox is gone.
        """
        now = self._keeping.keep(self._agent.turn)
        return self._referee.judge(self._agent.turn, now) if now.submission.exists else None
