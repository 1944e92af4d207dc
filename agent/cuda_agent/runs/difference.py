"""Compares what the calls of a run answered with what the same calls answered in another one."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from cuda_agent.history import standing
from cuda_agent.trajectory import Event, Observation

Kind = Literal["same", "numbers", "text", "outcome", "missing", "added"]

_SAVED = r"(?:state|cuda-agent-[\w-]+|var/lib/sandbox)/(?:outputs/[0-9a-f]+\.txt|jobs/\d+-[0-9a-f]+\.log)"
_PLACE = re.compile(rf"(?:/[^\s'\":]*?)?/(?:{_SAVED}|(?:workspace|cuda-agent-[\w-]+|var/lib/sandbox)\b)")
"""A run's own folders in any sandbox, and what its tools saved there."""
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_EXIT = re.compile(r"exit code (\d+)")


@dataclass(frozen=True)
class Difference:
    """One call, then and now."""

    turn: int
    call: str
    tool: str
    kind: Kind
    """`numbers`: alike but for numbers and the run's own paths; `outcome`: it failed in one of the two."""
    then: str = ""
    """The first line that differs."""
    now: str = ""


def compare(then: Iterable[Event], now: Iterable[Event]) -> list[Difference]:
    """Pair the calls of two runs in their order: the same replies make the same calls, up to the end of one run.

    Neither what was gone back over nor a person's own calls are among them.
    """
    return [_compare(*pair) for pair in zip_longest(_observations(then), _observations(now))]


def _observations(events: Iterable[Event]) -> list[Observation]:
    return [event for event in standing(list(events)) if isinstance(event, Observation) and not event.by]


def _compare(then: Observation | None, now: Observation | None) -> Difference:
    one = then or now
    assert one is not None  # zip_longest pads one side only
    if then is None or now is None:
        kind: Kind = "missing" if now is None else "added"
        return Difference(one.turn, one.id, one.name, kind)
    if then.text == now.text and then.is_error == now.is_error:
        return Difference(then.turn, then.id, then.name, "same")
    old, new = _first_difference(then.text.splitlines(), now.text.splitlines())
    if _outcome(then) != _outcome(now):
        kind = "outcome"
    else:
        kind = "numbers" if _shape(then.text) == _shape(now.text) else "text"
    return Difference(then.turn, then.id, then.name, kind, old, new)


def _outcome(one: Observation) -> tuple[bool, tuple[str, ...]]:
    return one.is_error, tuple(_EXIT.findall(one.text)[-1:])


def _shape(text: str) -> str:
    return _NUMBER.sub("#", _PLACE.sub("PLACE", text))


def _first_difference(then: Sequence[str], now: Sequence[str]) -> tuple[str, str]:
    for old, new in zip_longest(then, now, fillvalue=""):
        if _shape(old) != _shape(new):
            return old, new
    return next(((old, new) for old, new in zip_longest(then, now, fillvalue="") if old != new), ("", ""))
