"""Whose fault it is that a run did not come to its own end, by how its process ended and what run.json says."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from cuda_agent.batch.running import Ended


class Fault(StrEnum):
    """Who must act."""

    NONE = ""
    """Nobody: the run came to its own end, with a good kernel or without."""
    OPERATOR = "operator"
    """The operator's file cannot be used; no other run hears of it."""
    INFRASTRUCTURE = "infrastructure"
    """The machinery failed: it is tried again."""
    BLOCKING = "blocking"
    """What every run would meet: a full disk, a dead key, a wrong setting. The batch pauses."""
    STOPPED = "stopped"
    """The batch was told to stop."""


@dataclass(frozen=True)
class Verdict:
    """What became of one attempt."""

    fault: Fault
    message: str = ""


_BLOCKING = frozenset({"disk", "config", "usage", "authentication", "quota", "not found"})
_DISK_WORDS = ("no space left on device", "disk quota exceeded")


def judge(ended: Ended, document: Mapping[str, Any] | None, *, resumed: bool, stopping: bool) -> Verdict:
    """Say whose fault it was; `document` is the run's run.json, where there is one."""
    if (document or {}).get("status") == "done":
        return Verdict(Fault.NONE)
    message = ended.message or str((document or {}).get("error") or "")
    if ended.kind == "operator":
        return Verdict(Fault.OPERATOR, message)
    if any(words in message.casefold() for words in _DISK_WORDS):
        return Verdict(Fault.BLOCKING, message)
    if ended.kind in _BLOCKING and not (resumed and ended.kind == "config"):
        return Verdict(Fault.BLOCKING, message)
    if stopping and not ended.hung:
        return Verdict(Fault.STOPPED)
    return Verdict(Fault.INFRASTRUCTURE, _said(ended, message))


def _said(ended: Ended, message: str) -> str:
    if ended.hung:
        return f"the run hung: it wrote nothing any more, and was ended after {ended.wall_s:.0f} s"
    if ended.exit_code < 0:
        hint = " (the machine may have run out of memory)" if ended.exit_code == -9 else ""
        return f"the run's process was killed by signal {-ended.exit_code}{hint}"
    if ended.exit_code == 130:
        return "somebody interrupted the run"
    return message or f"the run's process ended with exit code {ended.exit_code} and said nothing"
