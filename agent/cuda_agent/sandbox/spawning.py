"""Starting a process that Ctrl-C is not meant for."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_OF_A_TERMINAL = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
"""What a terminal sends to all processes of a group."""


class _Start:
    """Whether the main thread, in which Python runs handlers of signals, is at a start; what waits for its end."""

    def __init__(self) -> None:
        self.under_way = False
        self.postponed: list[Callable[[], None]] = []


_start = _Start()


@contextmanager
def out_of_reach() -> Iterator[None]:
    """Hold back signals while a process is made that gets a session of its own.

    Until it has that it is in our group, and what a person types at the terminal then would end it, although the
    program asks that person first. It starts with these signals blocked. What is meant for us comes at the end of the
    `with` block; the process should be in the hands of who ends it by then.
    """
    main = threading.current_thread() is threading.main_thread()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _OF_A_TERMINAL)
    try:
        _start.under_way = main or _start.under_way
        yield
    finally:
        if main:
            _start.under_way = False
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        while main and _start.postponed:
            _start.postponed.pop(0)()


def postpone(action: Callable[[], None]) -> bool:
    """Have a handler of a signal call `action` after the start of a process that is under way; False: there is none.

    The mask alone does not hold a handler back: the system may hand the signal to another thread, and Python still runs
    the handler in the main thread, in the middle of the start.
    """
    if not _start.under_way:
        return False
    _start.postponed.append(action)
    return True
