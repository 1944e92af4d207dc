"""Locks on open files that are waited for."""

import fcntl
import time

POLL_S = 0.02


def locked(file: int, end: float, poll_s: float = POLL_S) -> bool:
    """Wait for the exclusive lock on a file until `end` (time.monotonic); whether it was had."""
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                return False
            time.sleep(poll_s)
        else:
            return True
