"""What a tool is: a name and a schema for the model, and `run` for the loop."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol


class ToolError(Exception):
    """The call cannot be done; the message goes to the model and says what would work."""


@dataclass(frozen=True)
class ToolResult:
    """What the model is told about its call."""

    text: str
    is_error: bool = False


class Tool(Protocol):
    """One tool. Tools are called one at a time, in the order of the model's calls."""

    name: str
    description: str
    """For the model: what it does, its limits, in a few sentences."""
    parameters: dict[str, Any]
    """JSON Schema of the arguments (an object)."""

    def run(self, arguments: Mapping[str, Any], *, on_output: Callable[[bytes], None] | None = None) -> ToolResult:
        """Do the call.

        Raises:
            ToolError: the arguments are wrong or the call cannot be done.
            SandboxLost: the sandbox is gone.
        """
        ...
