"""The operator's code, one step at a time: known by name to whoever waits for it, and ended where it does not end.

The alarm is the kernel's and ends the whole process: a loop in C that never gives the interpreter back, and a wait for
a GPU that never answers, can be ended in no other way.
"""

import contextlib
import math
import signal
import time
from collections.abc import Callable, Iterator

from cuda_agent_judge.protocol import Kind

_BY_THE_ALARM = "was killed by SIGALRM"


class Steps:
    """What of the operator runs now in this process, and the limit on it."""

    def __init__(self, limit_s: float = math.inf) -> None:
        """No step may take longer than `limit_s` seconds."""
        self._limit_s = limit_s
        self._tell: Callable[[str, float], None] | None = None

    @contextlib.contextmanager
    def told(self, tell: Callable[[str, float], None]) -> Iterator[None]:
        """Have `tell` called with each step that begins, and with "" when it has ended, and when (monotonic clock)."""
        self._tell = tell
        try:
            yield
        finally:
            self._tell = None

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """A step; this process is killed by SIGALRM where it takes too long."""
        self._say(name)
        if math.isfinite(self._limit_s):
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
            signal.setitimer(signal.ITIMER_REAL, self._limit_s)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self._say("")

    def _say(self, name: str) -> None:
        if self._tell is not None:
            self._tell(name, time.monotonic())


class Waiting:
    """What is known of the step that another process is at."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.name = ""
        self._since = 0.0

    def hear(self, name: str, at: float) -> None:
        """A step began then, or, with "", had ended."""
        self.name, self._since = name, at

    def at(self, order: Kind) -> str:
        """Say what the process is at that has this order."""
        if self.name:
            return f"{self.name} in model.py"
        return "a timed call of the reference" if order is Kind.GO else f"the reference's {order.name.lower()}"

    def overrun(self, how: str, unknown: str) -> str:
        """Say that the process ended by the limit on its step, or ""; `how` is `unknown` where nobody saw it end."""
        late = time.monotonic() - self._since >= self.limit_s
        if not (self.name and late) or how not in (_BY_THE_ALARM, unknown):
            return ""
        return (
            f"{self.name} in model.py did not end within {self.limit_s:g} s (operator_timeout_s): "
            "make it end, or allow the operator more time with --operator-timeout"
        )
