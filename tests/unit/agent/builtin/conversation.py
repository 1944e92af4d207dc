"""Holds a conversation with the model: answers its calls from what they ask, and keeps the files that it writes."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from cuda_agent.llm.builtin.policy import BuiltinModel
from cuda_agent.llm.model import Message, Reply, ToolCall

Answer = Callable[["Desk", str], str]


def report(status: str, **more: Any) -> str:
    """A judge's answer as one line."""
    return json.dumps({"schema": 1, "command": "verify", "status": status, **more})


def profiled(submission: float, status: str = "slower", *, native: float = 1.0) -> str:
    """The answer to a profile in which the native implementation took `native` ms."""
    times = {"submission": {"median": submission}, "compile": {"median": native}, "eager": {"median": native}}
    speedup = {"compile": {"median": native / submission, "low": native / submission, "high": native / submission}}
    return report(status, latency_ms=times, speedup=speedup, headline="compile")


class Desk:
    """The other side of the conversation."""

    def __init__(self, analysis: Mapping[str, Any]) -> None:
        self.files: dict[str, str] = {}
        self.messages = [Message("system", "rules"), Message("user", "make it fast")]
        self.commands: list[str] = []
        self.replies: list[Reply] = []
        self.answers: dict[str, Answer] = {
            "utils.analysis": lambda desk, command: report("measured", analysis=analysis),
            "--baseline": lambda desk, command: report("measured", latency_ms={"compile": {"median": 1.0}}),
            "compile.sh": lambda desk, command: report("compiled"),
            "utils.verification": lambda desk, command: report("correct"),
            "utils.profiling": lambda desk, command: profiled(2.0),
        }

    @property
    def variant(self) -> str:
        """What the kernel file says it is."""
        text = next(
            text for path, text in self.files.items() if path.endswith((".cpp", ".cu")) and "// variant" in text
        )
        return text.split("// variant: ")[1].splitlines()[0]

    @property
    def last(self) -> Reply:
        """The model's last reply."""
        return self.replies[-1]

    def turn(self) -> Reply:
        """Let the model reply and answer its calls; a reply without calls is answered by a person."""
        reply = BuiltinModel().complete(self.messages, [])
        self.replies.append(reply)
        self.messages.append(Message("assistant", reply.text, reply.tool_calls))
        for call in reply.tool_calls:
            self.messages.append(Message("tool", self._answer(call), tool_call_id=call.id))
        return reply

    def until_over(self, limit: int = 60) -> Reply:
        """Go on until the model has no more calls."""
        for _ in range(limit):
            if not self.turn().tool_calls:
                return self.last
        raise AssertionError(f"the model is not done after {limit} turns")

    def until(self, command: str, limit: int = 40) -> None:
        """Go on until a command was run."""
        count = len(self.commands)
        for _ in range(limit):
            self.turn()
            if any(command in line for line in self.commands[count:]):
                return
        raise AssertionError(f"{command!r} was never run")

    def _answer(self, call: ToolCall) -> str:
        arguments = call.arguments or {}
        if call.name == "MultiEdit":
            return self._edit(str(arguments["file_path"]), arguments["edits"])
        if call.name != "Bash":
            return "Plan kept."
        command = str(arguments["command"])
        self.commands.append(command)
        if command.startswith("rm -f "):
            for path in command.split()[2:]:
                self.files.pop(path, None)
            return "(no output)"
        order = ["--baseline", "utils.analysis", "compile.sh", "utils.verification", "utils.profiling"]
        return self.answers[next(word for word in order if word in command)](self, command)

    def _edit(self, path: str, edits: list[dict[str, Any]]) -> str:
        if edits[0]["old_string"] == "":
            if path in self.files:
                return f"MultiEdit: {path}: an empty old_string creates a file, but it exists; nothing was written"
            self.files[path] = edits[0]["new_string"]
            return f"Created {path} (3 lines)."
        text = self.files.get(path, "")
        for edit in edits:
            if text.count(edit["old_string"]) != 1:
                return f"MultiEdit: {path}: old_string was not found once; nothing was written"
            text = text.replace(edit["old_string"], edit["new_string"])
        self.files[path] = text
        return f"Edited {path}: {len(edits)} replacements."
