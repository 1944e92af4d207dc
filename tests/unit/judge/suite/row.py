"""One submission of the suite: what it does, what the judge says to it, and which defence finds it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Literal

from judging import SCALE

Target = Literal["cpu", "cuda"]
BOTH: tuple[Target, ...] = ("cpu", "cuda")
CPU: tuple[Target, ...] = ("cpu",)
CUDA: tuple[Target, ...] = ("cuda",)
ACCEPTED = ("correct", "win", "tie")
NO_WIN = ("slower", "tie", "inconclusive")
"""What a right submission may get that gains nothing; a machine with other load cannot always tell."""
WRONG = ("incorrect",)


@dataclass(frozen=True)
class Row:
    """A submission and what becomes of it."""

    name: str
    number: str
    """Of the kind of cheat or of the trap, for tables."""
    source: str
    """model_new.py."""
    statuses: tuple[str, ...] = WRONG
    """What the judge may say."""
    said: str = ""
    """Part of its reason."""
    off: tuple[str, ...] = ()
    """Of `Defences`, what has to be off for it to be accepted: all that one entry joins by "+"; one entry is enough."""
    plain: tuple[Target, ...] = ()
    """Where no switch, but the judge's structure stands against it: the targets on which it fools the plain checker."""
    looks: int = 1
    """How often the plain checker has to look at it until it is fooled."""
    by: str = ""
    """What of the structure stands against it."""
    unshown: str = ""
    """Why neither is shown, on targets other than those of `plain`."""
    operator: str | Mapping[Target, str] = SCALE
    command: Literal["verify", "verdict"] = "verify"
    final: bool = False
    kernels: Mapping[Target, Mapping[str, str]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    targets: tuple[Target, ...] = BOTH
    alone: bool = False
    """It leaves no room on the device for what others make ready there while it has its turn."""

    @property
    def needs_timing(self) -> bool:
        """Whether it shows in a verdict only."""
        return self.command == "verdict"

    @property
    def defences(self) -> tuple[str, ...]:
        """What finds it, in words."""
        return self.off or (self.by,)

    def operator_for(self, target: Target) -> str:
        """Its model.py."""
        return self.operator if isinstance(self.operator, str) else self.operator[target]

    def settings_for(self, target: Target) -> dict[str, Any]:
        """Its session."""
        usual: dict[str, Any] = {"libraries": "any", "call_timeout_s": 30 if target == "cpu" else 20}
        return usual | ({"target": "cuda"} if target == "cuda" else {}) | dict(self.settings)


def without(names: str) -> dict[str, bool]:
    """The defences with these switched off."""
    return dict.fromkeys(filter(None, names.split("+")), False)


def nearly(names: str) -> list[str]:
    """All that leaves one of several on: each must still be enough."""
    every = names.split("+")
    return ["+".join(some) for some in combinations(every, len(every) - 1) if some]
