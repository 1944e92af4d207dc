"""Asks a model for one tiny tool call: is it there, does it take our key, can it call tools."""

import time
from dataclasses import dataclass, field

from cuda_agent.errors import ModelError
from cuda_agent.llm.model import Message, Model, ToolSpec, Usage

_TOOL = ToolSpec(
    "report",
    "Report a number to the person.",
    {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
)
_TASK = (
    Message("system", "You answer with tool calls only."),
    Message("user", "Call the tool `report` with the number 7."),
)


@dataclass(frozen=True)
class Probe:
    """What came of it."""

    works: bool
    text: str
    """One sentence; where it does not work, with what to do."""
    duration_s: float
    usage: Usage = field(default_factory=Usage)


def probe(model: Model) -> Probe:
    """Make one request, which may be repeated while the provider asks for patience."""
    start = time.monotonic()
    try:
        reply = model.complete(_TASK, [_TOOL])
    except ModelError as error:
        return Probe(False, str(error), time.monotonic() - start)
    seconds = time.monotonic() - start
    if reply.refusal is not None:
        return Probe(False, f"{model.name} refused a harmless request: {reply.refusal}", seconds, reply.usage)
    made = [call for call in reply.tool_calls if call.name == _TOOL.name and call.arguments is not None]
    if not made:
        said = " ".join(reply.text.split())[:100]
        text = (
            f"{model.name} answers but called no tool (it said {said!r}); use a model or a server that can call tools."
        )
        return Probe(False, text, seconds, reply.usage)
    return Probe(True, f"{model.name} answers and calls tools ({seconds:.1f} s).", seconds, reply.usage)
