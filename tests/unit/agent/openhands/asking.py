"""A model against a server, with a clock that only its own waits move."""

from collections.abc import Sequence

from cuda_agent.llm.model import Message, ToolCall, ToolSpec
from cuda_agent.llm.openhands.model import OpenHandsModel
from cuda_agent.llm.openhands.options import resolve
from cuda_agent.llm.openhands.retry import Patience

KEY = "sk-planted-7f3a9c51e2"
TOOLS = [
    ToolSpec("Bash", "Run a command.", {"type": "object", "properties": {"command": {"type": "string"}}}),
    ToolSpec("Glob", "Find files.", {"type": "object", "properties": {"pattern": {"type": "string"}}}),
]
TASK = (Message("system", "You write kernels."), Message("user", "Begin."))


class Waits:
    """Records what was waited and said."""

    def __init__(self, time_left_s: float = 1e9) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self.said: list[str] = []
        self.time_left_s = time_left_s

    def patience(self) -> Patience:
        return Patience(
            time_left=lambda: self.time_left_s - self.now,
            notify=self.said.append,
            clock=lambda: self.now,
            sleep=self._sleep,
            jitter=lambda: 0.5,
        )

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def model(base: str, waits: Waits, *, name: str = "some/model", timeout_s: float = 60.0) -> OpenHandsModel:
    """An LLM `name` at this server."""
    environ = {"PLANTED": KEY}
    options = resolve(name, environ, api_base=base, api_key_env="PLANTED")
    return OpenHandsModel(options, environ, patience=waits.patience(), request_timeout_s=timeout_s)


def answered(*turns: tuple[Message, Sequence[str]]) -> list[Message]:
    """A conversation: after the task each assistant message and the answers to its calls."""
    messages = list(TASK)
    for message, answers in turns:
        messages.append(message)
        pairs = zip(message.tool_calls, answers, strict=True)
        messages += [Message("tool", answer, tool_call_id=call.id) for call, answer in pairs]
    return messages


def ran(identity: str, command: str = "ls") -> ToolCall:
    return ToolCall(identity, "Bash", {"command": command})
