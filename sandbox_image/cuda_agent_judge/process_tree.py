"""Which processes run below one, and how they are ended."""

import contextlib
import os
import signal
import time
from pathlib import Path


def is_running(pid: int) -> bool:
    """Whether a process is there and has not ended yet; one that nobody has waited for holds nothing any more.

    Its first thread may have ended before the others, of which CUDA starts several, and these hold its memory.
    """
    try:
        return state_of(pid) not in (b"", b"Z", b"X") or len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False


def end_process(pid: int, limit_s: float) -> None:
    """Kill a process and wait until nothing is left of it, for `limit_s` seconds at most."""
    until = time.monotonic() + limit_s
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
    while is_running(pid) and time.monotonic() < until:
        time.sleep(0.002)


def state_of(pid: int) -> bytes:
    """The letter by which the kernel says what a process does (R, S, T, Z, ...); none where there is no process."""
    try:
        return fields_of(pid)[0]
    except (OSError, IndexError):
        return b""


def fields_of(pid: int) -> list[bytes]:
    """What the kernel says of a process, from its state on: field 3 of proc(5)'s `stat` is the first.

    Raises:
        OSError: there is no process.
    """
    return Path("/proc", str(pid), "stat").read_bytes().rpartition(b")")[2].split()


def threads_of(pid: int) -> list[int]:
    """The threads of a process; none where there is no process."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def kill_descendants(limit_s: float = 10.0, spared: frozenset[int] = frozenset()) -> None:
    """Kill every process below this one but `spared`, those in sessions of their own included, and reap them."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        found = descendants(os.getpid(), spared)
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if spared and not found:
            return
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)


def descendants(root: int, spared: frozenset[int] = frozenset()) -> list[int]:
    """All processes whose line of parents leads to `root` and through none of `spared`."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                stat = Path("/proc", entry, "stat").read_bytes()
                parents[int(entry)] = int(stat.rpartition(b")")[2].split()[1])
    mine = {root}
    found: list[int] = []
    grown = True
    while grown:
        new = [pid for pid, parent in parents.items() if parent in mine and pid not in mine and pid not in spared]
        mine.update(new)
        found += new
        grown = bool(new)
    return found
