"""Starting a process that Ctrl-C is not meant for."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

_OF_A_TERMINAL = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
"""What a terminal sends to all processes of a group."""


@contextmanager
def out_of_reach() -> Iterator[None]:
    """Hold back a terminal's signals while a process is made that gets a session of its own.

    Until it has that it is in our group, and what a person types then would end it, although the program asks that
    person first. It starts with these signals blocked; what is meant for us comes at the end of the `with` block.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _OF_A_TERMINAL)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
