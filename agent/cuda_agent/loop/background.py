"""What a conversation makes the model take for running in the background; it ends with the process of the run."""

from collections.abc import Iterable
from dataclasses import dataclass

from cuda_agent.llm.model import Message
from cuda_agent_tools.background import begun_in, ended_in

_MOST_COMMAND = 300


@dataclass(frozen=True)
class Running:
    """A command that the model was told runs, and not that it ended."""

    number: int
    command: str
    log: str
    """Path of its output, as seen from inside the sandbox that it ran in."""

    @property
    def line(self) -> str:
        """The command in one line that is not too long."""
        line = " ".join(self.command.split())
        return line if len(line) <= _MOST_COMMAND else line[:_MOST_COMMAND] + " ..."


def running(messages: Iterable[Message]) -> tuple[Running, ...]:
    """Return what the model takes for running at the end of these messages, oldest first.

    Each is known by its log: numbers begin anew with each process that works on a run.
    """
    found: dict[str, Running] = {}
    commands: dict[str, str] = {}
    for message in messages:
        for call in message.tool_calls:
            commands[call.id] = str((call.arguments or {}).get("command", ""))
        if message.role == "tool":
            for log in ended_in(message.content):
                found.pop(log, None)
            for number, log in begun_in(message.content):
                found[log] = Running(number, commands.get(message.tool_call_id or "", ""), log)
        elif message.role == "user":
            for log in [log for log, one in found.items() if told_in(message.content, one)]:
                del found[log]
    return tuple(found.values())


def told_in(text: str, job: Running) -> bool:
    """Whether a message of the runtime says that this command is gone (nudges/background.md)."""
    return any(line.startswith(f"- job {job.number}: `{job.line}`") for line in text.splitlines())
