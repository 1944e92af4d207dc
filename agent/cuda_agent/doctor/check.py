"""The result of one check."""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How a check came out."""

    FINE = "fine"
    ABSENT = "absent"
    """Something optional is not there; runs go on without it."""
    PROBLEM = "problem"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    state: State
    said: str
    """What was found, in a line."""
    remedy: str = ""
    """The command that mends it, or what to do."""


def fine(name: str, said: str) -> Check:
    """Return a check that came out well."""
    return Check(name, State.FINE, said)


def absent(name: str, said: str, remedy: str = "") -> Check:
    """Return a check for something optional that is not there."""
    return Check(name, State.ABSENT, said, remedy)


def problem(name: str, said: str, remedy: str) -> Check:
    """Return a check that found something to mend."""
    return Check(name, State.PROBLEM, said, remedy)
