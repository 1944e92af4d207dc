"""TodoWrite: the model's plan, kept for whoever shows it."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from cuda_agent_tools.arguments import Arguments, decode_list, parse, schema
from cuda_agent_tools.tool import ToolResult


class Todo(Arguments):
    """One step of the plan."""

    content: str = Field(min_length=1)
    status: Literal["pending", "in_progress", "completed"]
    activeForm: str = ""


class TodoWriteArguments(Arguments):
    """What TodoWrite takes."""

    todos: Annotated[list[Todo], BeforeValidator(decode_list)]


class TodoWrite:
    """Replaces the list of steps by the one given."""

    name = "TodoWrite"
    description = (
        "Write down the plan: the whole list of steps, replacing the last one. Keep one step in_progress, mark it "
        'completed as soon as it is. activeForm says the step as it is being done ("Compiling the kernel").'
    )

    def __init__(self) -> None:
        """Start with no plan."""
        self.parameters: dict[str, Any] = schema(TodoWriteArguments)
        self.todos: tuple[Todo, ...] = ()
        """The present plan."""

    def run(self, arguments: Mapping[str, Any], *, on_output: Callable[[bytes], None] | None = None) -> ToolResult:
        """Take the new list.

        Raises:
            ToolError: the arguments are wrong.
        """
        self.todos = tuple(parse(TodoWriteArguments, arguments, tool=self.name).todos)
        count = Counter(todo.status for todo in self.todos)
        done, doing, left = (count[status] for status in ("completed", "in_progress", "pending"))
        text = f"Plan kept: {done} completed, {doing} in progress, {left} pending."
        if doing > 1:
            text += " Work on one step at a time: keep a single one in_progress."
        return ToolResult(text)
