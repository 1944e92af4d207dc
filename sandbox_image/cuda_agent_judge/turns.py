"""Whose turn it is: while one side is timed, every process of the other side is stopped.

A stopped submission cannot slow a baseline, nor work ahead on inputs that were drawn while it slept. Both sides are
woken in the same way, so that the waking costs them the same. Used on `cpu`; on `cuda` the device works on regardless.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from cuda_agent_judge import cores
from cuda_agent_judge.process_tree import descendants, state_of, threads_of

_SWEEPS = 50
"""A submission that forks faster than so many sweeps find its processes is left to the judge's clock."""
_STOP_LIMIT_S = 0.2


class Meddled(Exception):
    """A submission changed how the reference worker is scheduled."""


class Turns:
    """Stops and wakes the two workers of one judgement; called by the judge, whose parent is theirs too."""

    def __init__(self, reference: int, candidate: int) -> None:
        self._reference = reference
        self._candidate = candidate
        self._spared = frozenset({os.getpid(), reference})
        self._stopped: list[int] = []
        self._known: list[int] = []
        """What the last sweep found, the candidate worker first."""
        self._scheduled = scheduling(reference)
        self._reference_stopped = False

    def stop_candidate(self) -> None:
        """Stop the candidate worker and what is known to come from it, and see that the worker stands still."""
        self._stopped = [self._candidate, *(pid for pid in self._known if pid != self._candidate)]
        for pid in self._stopped:
            _send(pid, signal.SIGSTOP)
        end = time.monotonic() + _STOP_LIMIT_S
        while _runs(self._candidate) and time.monotonic() < end:
            time.sleep(0)

    def stop_submission(self) -> None:
        """Stop the candidate worker and every process that came from it."""
        self.stop_candidate()
        found: list[int] = []
        for _ in range(_SWEEPS):
            found = descendants(os.getppid(), self._spared)
            new = set(found) - set(self._stopped)
            if not new:
                break
            for pid in new:
                _send(pid, signal.SIGSTOP)
            self._stopped += new
        self._known = found

    @contextlib.contextmanager
    def placed(self, *, submission: bool) -> Iterator[None]:
        """Where a worker stands still, have a core for each of its threads in the call that it is woken for."""
        pid = self._candidate if submission else self._reference
        if not (self._stopped if submission else self._reference_stopped):
            yield
            return
        masks = cores.spread(pid)
        try:
            yield
        finally:
            cores.restore(pid, masks)

    def wake_submission(self) -> None:
        """Let all of them run again."""
        stopped, self._stopped = self._stopped, []
        for pid in stopped:
            _send(pid, signal.SIGCONT)

    def stop_reference(self) -> None:
        """Stop the reference worker.

        Raises:
            Meddled: somebody changed its priority or its cores.
        """
        if not scheduling(self._reference) <= self._scheduled:
            raise Meddled("the submission changed the priority or the cores of the process it is compared with")
        _send(self._reference, signal.SIGSTOP)
        self._reference_stopped = True

    def wake_reference(self) -> None:
        """Let it run again."""
        _send(self._reference, signal.SIGCONT)
        self._reference_stopped = False

    def waited_ns(self, *, submission: bool) -> dict[str, int]:
        """How long each of a worker's threads has stood in line for a core; nothing where that is not counted."""
        pid = self._candidate if submission else self._reference
        found = {}
        for thread in threads_of(pid):
            with contextlib.suppress(OSError, ValueError, IndexError):
                found[f"{thread}"] = int(Path(f"/proc/{pid}/task/{thread}/schedstat").read_bytes().split()[1])
        return found


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _runs(pid: int) -> bool:
    return state_of(pid) not in (b"", b"T", b"t", b"Z", b"X")


def scheduling(pid: int) -> set[tuple[int, int, frozenset[int]]]:
    """Policy, priority and cores of every thread."""
    found = set()
    for thread in threads_of(pid):
        with contextlib.suppress(OSError):
            how = os.sched_getscheduler(thread), os.getpriority(os.PRIO_PROCESS, thread)
            found.add((*how, frozenset(os.sched_getaffinity(thread))))
    return found
