"""SIGINT, SIGTERM and SIGHUP end a run in order: the first raises KeyboardInterrupt where the program stands.

Who sits at a terminal may be asked first (`ask`), and may go on afterwards (`calm`).
"""

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

from cuda_agent.sandbox.spawning import postpone

_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """Handlers for the length of a `with` block, in the main thread."""

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Any] = {}
        self._shielded = False
        self.received = 0
        self.must_leave = False
        """SIGTERM or SIGHUP came, or a second signal: nothing that takes long is started any more."""
        self._told_to_leave = False
        self.ask: Callable[[], bool] | None = None
        """Asked in the handler of a first SIGINT; True means: go on as if it had not come."""
        self.instead: Callable[[], None] | None = None
        """Called where KeyboardInterrupt would be raised, by who cannot take it just anywhere: it raises it in time."""

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            return self  # only the main thread may set handlers
        for number in _HANDLED:
            before = signal.getsignal(number)
            if number is signal.SIGHUP and before is signal.SIG_IGN:
                continue  # nohup
            self._before[number] = before
            signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def shield(self) -> None:
        """From now on signals are noted only: the run is cleaning up."""
        self._shielded = True

    def calm(self) -> None:
        """A person decided to go on: the next SIGINT is a first one again. SIGTERM and SIGHUP stand."""
        if not self._told_to_leave:
            self.received, self.must_leave = 0, False

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not postpone(lambda: self._take(number)):
            self._take(number)

    def _take(self, number: int) -> None:
        self.received += 1
        self._told_to_leave = self._told_to_leave or number != signal.SIGINT
        self.must_leave = self._told_to_leave or self.received > 1
        if self._shielded:
            return
        if self.ask is not None and not self.must_leave and self.ask():
            self.calm()
            return
        if self.instead is None:
            raise KeyboardInterrupt
        self.instead()
