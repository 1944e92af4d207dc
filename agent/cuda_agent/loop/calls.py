"""Answers tool calls: each exactly once, in order, whatever is wrong with it."""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from cuda_agent.llm.model import ToolCall, ToolSpec
from cuda_agent.trajectory import CallStarted, Observation, Trajectory
from cuda_agent_tools.tool import Tool, ToolError, ToolResult


class Calls:
    """The tools of a run."""

    def __init__(self, tools: Sequence[Tool], trajectory: Trajectory) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._trajectory = trajectory

    @property
    def specs(self) -> Sequence[ToolSpec]:
        """The tools as the model is told of them."""
        return [ToolSpec(tool.name, tool.description, tool.parameters) for tool in self._tools.values()]

    def answer(self, turn: int, call: ToolCall, *, by: str = "") -> Observation:
        """Run one call and record it; `by` says "person" where it is not the model's.

        Raises:
            SandboxLost: the sandbox is gone; the call stays unanswered.
        """
        self._trajectory.add(CallStarted(turn, call.id, call.name, call.arguments, by))
        start = time.monotonic()
        result = self._run(call)
        return self.record(turn, call, result, time.monotonic() - start, by=by)

    def decline(self, turn: int, call: ToolCall, why: str) -> Observation:
        """Answer a call that is not run."""
        return self.record(turn, call, ToolResult(f"Not run: {why}", is_error=True), 0.0)

    def unknown(self, turn: int, call: ToolCall, text: str) -> Observation:
        """Answer a call that may have run: nobody saw its end."""
        return self.record(turn, call, ToolResult(text, is_error=True), 0.0)

    def record(self, turn: int, call: ToolCall, result: ToolResult, seconds: float, *, by: str = "") -> Observation:
        """Write down what a call is answered."""
        event = Observation(turn, call.id, call.name, result.text, result.is_error, round(seconds, 3), by)
        self._trajectory.add(event)
        return event

    def _run(self, call: ToolCall) -> ToolResult:
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(sorted(self._tools))
            return ToolResult(f"There is no tool {call.name!r}; the tools are {known}.", is_error=True)
        if call.arguments is None:
            return ToolResult(
                f"The arguments of {call.name} are not a JSON object: {call.raw_arguments[:500]!r}."
                " Nothing was run; send the call again with valid JSON.",
                is_error=True,
            )
        wrong = _missing(tool, call.arguments)
        if wrong:
            return ToolResult(wrong, is_error=True)
        try:
            return tool.run(call.arguments, on_output=self._trajectory.listener.on_output)
        except ToolError as error:
            return ToolResult(str(error), is_error=True)
        except OSError as error:
            return ToolResult(f"{call.name} failed: {error.strerror or error}.", is_error=True)


class Repeats:
    """Counts calls that gave the same result again while the submission stayed as it was."""

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self._counts: Counter[str] = Counter(counts or {})

    @property
    def counts(self) -> dict[str, int]:
        """The counts, by the hash of a call and its result."""
        return dict(self._counts)

    def reset(self) -> None:
        """Forget: the submission changed."""
        self._counts.clear()

    def count(self, call: ToolCall, observation: Observation) -> int:
        """Return how often this call gave this result since the last change."""
        said = json.dumps(
            [call.name, call.arguments, call.raw_arguments, observation.text], sort_keys=True, default=str
        )
        key = hashlib.sha256(said.encode("utf-8", "backslashreplace")).hexdigest()
        self._counts[key] += 1
        return self._counts[key]


def _missing(tool: Tool, arguments: Mapping[str, object]) -> str:
    names = [name for name in tool.parameters.get("required", []) if name not in arguments]
    if not names:
        return ""
    return f"{tool.name} needs {', '.join(map(repr, names))}; nothing was run, send the call again with it."
