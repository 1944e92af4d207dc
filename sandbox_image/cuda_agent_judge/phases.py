"""Where the seconds of one command go, by stage and by what was waited for within it. Standard library only."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

LEAST_S = 0.001
"""Parts that took less are left out."""


class Phases:
    """Adds seconds up; stages follow one another, a part `stage.part` lies within a stage or beside it."""

    def __init__(self, known: Mapping[str, float] | None = None) -> None:
        self._seconds = dict(known or {})
        self._stage = ""

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time of a `with` block; parts that end in there bear its name."""
        outer, self._stage = self._stage, name
        began = time.monotonic()
        try:
            yield
        finally:
            self._stage = outer
            self.add(name, time.monotonic() - began)

    def part(self, name: str, seconds: float) -> None:
        """Count seconds within the present stage."""
        self.add(f"{self._stage}.{name}" if self._stage else name, seconds)

    def add(self, name: str, seconds: float) -> None:
        """Count seconds under a name of their own."""
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def under(self, name: str, parts: Mapping[str, float]) -> None:
        """Take over what another process counted."""
        for part, seconds in parts.items():
            self.add(f"{name}.{part}", seconds)

    def so_far(self) -> dict[str, float]:
        """The seconds by name, in the order in which they came up."""
        return {name: round(value, 3) for name, value in self._seconds.items() if value >= LEAST_S}


def process_age_s() -> float:
    """How long ago this process was started, to a hundredth of a second; 0 where the system does not say."""
    try:
        fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError):
        return 0.0
