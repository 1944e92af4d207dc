"""SIGINT, SIGTERM and SIGHUP end a run in order: the first raises KeyboardInterrupt where the program stands."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """Handlers for the length of a `with` block, in the main thread."""

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Any] = {}
        self._shielded = False
        self.received = 0
        self.must_leave = False
        """SIGTERM or SIGHUP came, or a second signal: nothing that takes long is started any more."""

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

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.received += 1
        self.must_leave = self.must_leave or number != signal.SIGINT or self.received > 1
        if not self._shielded:
            raise KeyboardInterrupt
