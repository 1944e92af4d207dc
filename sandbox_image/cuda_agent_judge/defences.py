"""What stands between a submission and a false verdict, each of which a test can switch off to see that it matters.

Only a caller in Python can: no command line, environment variable, setting or frame carries a `Defences`, and what
runs in a worker has it by the fork. A judge that is started as a program always has all of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Defences:
    """One judgement's defences, and the slowness that is injected into a side to see whether the judge finds it."""

    fresh: bool = True
    """Every call has new secret values; without it all calls of a judgement have the same ones."""
    checked: bool = True
    """Outputs of timed calls are compared."""
    poison: bool = True
    """Landing places and freed memory are filled with what nobody means to return."""
    sync: bool = True
    """On `cuda` the whole device is waited for before a call's output is taken, not its stream alone."""
    clock: bool = True
    """The judge's own clock bounds what a submission claims."""
    alias: bool = True
    """Outputs may not share memory with inputs or weights."""
    lifetime: bool = True
    """Outputs stay what they are when forward is called again."""
    untouched: bool = True
    """Inputs come back as they went out."""
    still: bool = True
    """On `cpu` a submission stands still outside its calls, and its outputs are read in place when forward returns."""
    red_zones: bool = True
    """In one call what a submission is given or allocates lies between guard bands, which it may not write to."""
    slower: Mapping[str, float] = field(default_factory=dict)
    """By side, the share of a call's own time by which it is drawn out: 0.08 makes 1 ms last 1.08 ms."""


ALL = Defences()
