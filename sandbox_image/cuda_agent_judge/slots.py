"""What a command of the judge shares with the others of this machine: the device, and room for a build.

The device is held around whatever is timed, or runs on it for a check, and never while something is compiled or waited
for. Both are locks of the whole machine (lock_queue.py) where the session names a directory for them.
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path

from cuda_agent_judge.gpu import visible_gpu
from cuda_agent_judge.lock_queue import LockFault, LockQueue, StillHeld
from cuda_agent_judge.processes import JudgeFault

WAIT_LIMIT_S = 3600.0
"""Who has waited for so long stands behind something that hangs."""
SAID_AFTER_S = 1.0
BYTES_A_BUILD = 2 << 30


class Slot:
    """One shared thing, and how long this command held it and waited for it, in seconds."""

    def __init__(self, make: Callable[[], LockQueue] | None, limit_s: float, what: str, busy: str) -> None:
        """`what` and `busy` tell whoever waits: "waiting for WHAT: another run is BUSY"."""
        self._make = make
        self._limit_s = limit_s
        self._queue: LockQueue | None = None
        self._what = what
        self._busy = busy
        self._since = 0.0
        self._holds = False
        self._told = False
        self.held_s = 0.0
        self.wait_s = 0.0
        self.note = ""
        """Why it was not held alone, where it should have been."""

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold it.

        Raises:
            JudgeFault: others held it for longer than anything takes.
        """
        self._take()
        try:
            yield
        finally:
            self._give()

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """Let others have it meanwhile, and get in line anew."""
        if not self._holds:
            yield
            return
        self._give()
        yield
        self._take()

    def _take(self) -> None:
        began = time.monotonic()
        if self._make is not None:
            try:
                queue = self._queue = self._queue or self._make()
                queue.acquire(self._limit_s, self._tell)
            except StillHeld:
                raise JudgeFault(
                    f"others have held {self._what} for {self._limit_s / 60:.0f} minutes: end what hangs there"
                ) from None
            except LockFault as fault:
                self.note = f"{self._what} was not held alone: the locks' directory cannot be used ({fault})"
        self._since = time.monotonic()
        self.wait_s += self._since - began
        self._holds = True

    def _give(self) -> None:
        if self._queue is not None:
            self._queue.release()
        if self._holds:
            self.held_s += time.monotonic() - self._since
        self._holds = False

    def _tell(self, waited: float) -> None:
        if waited > SAID_AFTER_S and not self._told:
            self._told = True
            print(f"waiting for {self._what}: another run is {self._busy}", file=sys.stderr, flush=True)


class Slots:
    """The slots of one command."""

    def __init__(self, target: str, directory: Path | None, *, wait_limit_s: float = WAIT_LIMIT_S) -> None:
        self._on_gpu = target == "cuda"
        what = "the GPU" if self._on_gpu else "the processor"
        device = None if directory is None else lambda: LockQueue(directory, self.gpu or target)
        builds = None if directory is None else lambda: LockQueue(directory, "build", build_places())
        self.device = Slot(device, wait_limit_s, what, "timing")
        self.builds = Slot(builds, wait_limit_s, "a place to compile", "compiling")

    @cached_property
    def gpu(self) -> str:
        """UUID of the GPU that everything runs on; "" on `cpu` and where it cannot be told."""
        return visible_gpu(os.environ) if self._on_gpu else ""

    @property
    def accounts(self) -> dict[str, float]:
        """Seconds that device and places to compile were held and waited for."""
        found = {
            "device_s": self.device.held_s,
            "device_wait_s": self.device.wait_s,
            "build_s": self.builds.held_s,
            "build_wait_s": self.builds.wait_s,
        }
        return {name: round(seconds, 3) for name, seconds in found.items()}

    @property
    def notes(self) -> list[str]:
        """What a reader must know of them."""
        return [note for note in (self.device.note, self.builds.note) if note]


@contextlib.contextmanager
def if_free(name: str, directory: Path | None) -> Iterator[bool]:
    """Hold a device for the length of a `with` block if nobody has it or waits for it; says whether."""
    queue = None if directory is None else LockQueue(directory, name)
    free = True
    try:
        if queue is not None:
            queue.acquire(0)
    except (StillHeld, LockFault):
        free = False
    try:
        yield free
    finally:
        if queue is not None:
            queue.release()


def build_places() -> int:
    """How many builds run at once on this machine: one for two cores and for 2 GiB of memory."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(len(os.sched_getaffinity(0)) // 2, memory // BYTES_A_BUILD))
