"""Runs on this machine: a thread for each waits for its process."""

import queue
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from cuda_agent.batch.running import Attempt, Ended, Halt, carry_out


class LocalEngine:
    """The default engine: so many workers, spread over the GPUs."""

    def __init__(self, workers: int, gpus: Sequence[str] = ()) -> None:
        """`gpus` are UUIDs or numbers; without any, every run sees what this process sees."""
        self.slots = workers
        self._halt = Halt.NO
        self._gpus = Counter(dict.fromkeys(gpus, 0))
        """How many runs each has."""
        self._threads: dict[str, threading.Thread] = {}
        self._ended: queue.SimpleQueue[Ended] = queue.SimpleQueue()

    @property
    def described(self) -> dict[str, str]:
        """What the batch's documents say of it."""
        gpus = {"gpus": ", ".join(self._gpus)} if self._gpus else {}
        return {"engine": "local", "workers": str(self.slots), **gpus}

    def begin(self, attempt: Attempt) -> None:
        """Start an attempt on the GPU with the fewest."""
        if self._gpus:
            gpu = min(self._gpus, key=lambda one: self._gpus[one])
            self._gpus[gpu] += 1
            attempt = replace(attempt, gpu=gpu)
        thread = threading.Thread(target=self._carry_out, args=(attempt,), name=attempt.job)
        self._threads[attempt.job] = thread
        thread.start()

    def ended(self, timeout_s: float) -> list[Ended]:
        """Return what ended since the last call; waits up to `timeout_s` for the first."""
        found: list[Ended] = []
        try:
            found.append(self._ended.get(timeout=timeout_s))
            while True:
                found.append(self._ended.get_nowait())
        except queue.Empty:
            pass
        for one in found:
            self._threads.pop(one.job).join()
            if one.gpu is not None:
                self._gpus[one.gpu] -= 1
        return found

    def halt(self, how: Halt) -> None:
        """Have everything that runs end before its time."""
        self._halt = max(self._halt, how)

    def _carry_out(self, attempt: Attempt) -> None:
        try:
            ended = carry_out(attempt, lambda: self._halt)
        except Exception as error:  # whatever it is, the batch must hear that the attempt is over
            ended = Ended(attempt.job, 3, "unexpected", f"{type(error).__name__}: {error}")
        self._ended.put(replace(ended, gpu=attempt.gpu))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.halt(Halt.AT_ONCE)
        for thread in self._threads.values():
            thread.join()
