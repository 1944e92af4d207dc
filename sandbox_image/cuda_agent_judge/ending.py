"""Ends a process that holds the device, and waits until it holds nothing any more."""

import contextlib
import os
import signal
import time

from cuda_agent_judge.processes import is_running


def end_process(pid: int, limit_s: float) -> None:
    """Kill a process and wait until nothing is left of it, for `limit_s` seconds at most."""
    until = time.monotonic() + limit_s
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
    while is_running(pid) and time.monotonic() < until:
        time.sleep(0.002)
