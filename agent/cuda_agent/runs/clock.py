"""The time limit of a run. Time in which a person thinks at a prompt is not the run's."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from cuda_agent.runs.signals import Signals


class Clock:
    """Counts the seconds of one run from now on."""

    def __init__(self, limit_s: float | None, signals: Signals, *, start: float | None = None) -> None:
        self.limit_s = limit_s
        """May be replaced while the run lasts; None is no limit."""
        self._signals = signals
        self._start = time.monotonic() if start is None else start
        self._paused_s = 0.0

    @property
    def elapsed_s(self) -> float:
        """How long the run took until now."""
        return time.monotonic() - self._start - self._paused_s

    def left(self) -> float:
        """Return the seconds until the run must end; none are left once it was told to leave."""
        if self._signals.must_leave:
            return 0.0
        return math.inf if self.limit_s is None else self.limit_s - self.elapsed_s

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count the time of a `with` block."""
        start = time.monotonic()
        try:
            yield
        finally:
            self._paused_s += time.monotonic() - start
