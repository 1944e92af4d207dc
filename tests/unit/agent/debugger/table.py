"""A person at a table: what they type, and what they read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.unit.agent.fakes import FakeJudge, Heard

from cuda_agent.debugger.console import Console
from cuda_agent.debugger.desk import Desk
from cuda_agent.debugger.stepper import Halt, Stepper
from cuda_agent.llm.model import Message
from cuda_agent.llm.scripted import ScriptedModel
from cuda_agent.loop.agent import Agent


class Files(dict[str, bytes]):
    """The submission; what is written into it is in the workspace, too."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __setitem__(self, name: str, data: bytes) -> None:
        super().__setitem__(name, data)
        (self._folder / name).write_bytes(data)


class TypedLines:
    """Lines from a list; an exception in it is raised; at its end the input is over."""

    interactive = True

    def __init__(self, lines: Sequence[str | BaseException]) -> None:
        self.left = list(lines)

    def read(self, prompt: str) -> str | None:
        if not self.left:
            return None
        line = self.left.pop(0)
        if isinstance(line, BaseException):
            raise line
        return line

    def interrupt(self) -> None:
        raise KeyboardInterrupt


@dataclass
class Table:
    """A run in front of a person."""

    desk: Desk
    console: Console
    model: ScriptedModel
    heard: Heard
    judge: FakeJudge
    written: list[str]
    typed: TypedLines
    files: dict[str, bytes]

    @property
    def agent(self) -> Agent:
        return self.desk.session.agent

    @property
    def stepper(self) -> Stepper:
        return self.desk.stepper

    @property
    def text(self) -> str:
        return "\n".join(self.written)

    def said(self) -> list[str]:
        """What user messages the model would read, without the task."""
        return [message.content for message in self.agent.messages if message.role == "user"][1:]

    def answers(self) -> list[Message]:
        return [message for message in self.agent.messages if message.role == "tool"]

    def talk(self, *lines: str | BaseException) -> str:
        """Type these lines and return what was written."""
        self.typed.left[:] = lines
        self.written.clear()
        self.console.talk(self.desk, Halt())
        return self.text


Open = Callable[..., Table]


def raises(error: BaseException) -> Any:
    """A tool that is interrupted while it runs."""

    class Interrupting:
        name = "Hang"
        description = "Never ends."

        def __init__(self) -> None:
            self.parameters: dict[str, Any] = {"type": "object"}

        def run(self, arguments: Any, *, on_output: Any = None) -> Any:
            raise error

    return Interrupting()
