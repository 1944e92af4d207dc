"""The conversation read back: which calls were made, what they were for, and what they answered."""

import base64
import binascii
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from cuda_agent.llm.model import Message, ToolCall


class Purpose(StrEnum):
    """What a call was for."""

    ANALYSIS = "analysis"
    BASELINE = "baseline"
    COMPILE = "compile"
    VERIFY = "verify"
    PROFILE = "profile"
    WRITE = "write"
    RESET = "reset"
    OTHER = "other"


COMMANDS = {
    Purpose.ANALYSIS: "python3 -m utils.analysis --json",
    Purpose.BASELINE: "python3 -m utils.profiling --baseline --json",
    Purpose.COMPILE: "bash utils/compile.sh --json",
    Purpose.VERIFY: "python3 -m utils.verification --json",
    Purpose.PROFILE: "python3 -m utils.profiling --json",
}
_PACK = (
    ' | tail -n 1 | python3 -c "import base64, json, sys, zlib; text = sys.stdin.buffer.read(); '
    "print('packed:' + base64.b64encode(zlib.compress(text, 9)).decode()); "
    "report = json.loads(text) if text[:1] == b'{' else {}; "
    "print(report.get('status', ''), report.get('reason', ''), sep=': ')\""
)
"""For an answer too long for the tool's output: its last line, compressed, and for a person what it comes to."""
_PACKED = re.compile(r"packed:([A-Za-z0-9+/=]+)")


@dataclass(frozen=True)
class Event:
    """One call and its answer."""

    purpose: Purpose
    call: ToolCall
    result: str
    report: Mapping[str, Any] | None
    """The judge's Report, where the answer held one."""


def read_events(messages: Sequence[Message]) -> list[Event]:
    """Every answered call, in order."""
    answers = {m.tool_call_id: m.content for m in messages if m.role == "tool" and m.tool_call_id}
    calls = [call for message in messages if message.role == "assistant" for call in message.tool_calls]
    return [_event(call, answers[call.id]) for call in calls if call.id in answers]


def _event(call: ToolCall, result: str) -> Event:
    purpose = purpose_of(call)
    report = None if purpose in (Purpose.WRITE, Purpose.RESET, Purpose.OTHER) else find_report(result)
    return Event(purpose, call, result, report)


def purpose_of(call: ToolCall) -> Purpose:
    """Return what a call was for, by its text."""
    if call.name == "MultiEdit":
        return Purpose.WRITE
    command = str((call.arguments or {}).get("command", "")) if call.name == "Bash" else ""
    if command.startswith("rm -f "):
        return Purpose.RESET
    if "utils.profiling" in command:
        return Purpose.BASELINE if "--baseline" in command else Purpose.PROFILE
    words = {
        "utils.analysis": Purpose.ANALYSIS,
        "utils/compile.sh": Purpose.COMPILE,
        "utils.verification": Purpose.VERIFY,
    }
    return next((purpose for word, purpose in words.items() if word in command), Purpose.OTHER)


def find_report(text: str) -> Mapping[str, Any] | None:
    """Return the last line that is a Report, whatever stands before and after it."""
    for line in reversed(list(_lines(text))):
        start = line.find("{")
        if start < 0:
            continue
        try:
            value = json.loads(line[start : line.rfind("}") + 1])
        except ValueError:
            continue
        if isinstance(value, dict) and "schema" in value and "status" in value:
            return value
    return None


def _lines(text: str) -> Iterator[str]:
    yield from text.splitlines()
    for packed in _PACKED.findall(text):
        try:
            yield from zlib.decompress(base64.b64decode(packed)).decode("utf-8", "replace").splitlines()
        except (zlib.error, binascii.Error):
            continue


def command_for(purpose: Purpose, tries: int) -> str:
    """Return the command of a step; from the second try on its answer is packed, in case it was too long."""
    return COMMANDS[purpose] + (_PACK if tries else "")


def was_answered(messages: Sequence[Message]) -> bool:
    """Whether the model called itself done (a reply without calls) and was told more."""
    for message in reversed(messages):
        if message.role == "assistant":
            return not message.tool_calls and bool(messages) and messages[-1].role == "user"
    return False
