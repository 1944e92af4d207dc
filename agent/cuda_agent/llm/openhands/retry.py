"""The one layer that asks again: as late as the provider wishes, within a budget of time, and aloud."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from cuda_agent.llm.openhands.failures import Failure, Kind

BUDGET_S = 900.0
"""So long a provider may keep failing before the run ends."""
UNREACHABLE_BUDGET_S = 60.0
"""A server that does not even answer is given up earlier: it is most often not running."""
REJECTED_REPLIES = 4
"""So many replies in a row that cannot be read are enough."""
_FIRST_WAIT_S = 1.0
_STEP_S = 0.5
_LONGEST_WAIT_S = 60.0


class Failed(Exception):
    """One request failed."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.said)
        self.failure = failure


@dataclass(frozen=True)
class Patience:
    """How long to go on; the clock and the sleep are given so that both can be watched."""

    time_left: Callable[[], float]
    """Seconds until the answer is of no use any more."""
    notify: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random

    def persist[T](self, attempt: Callable[[], T]) -> T:
        """Return what the attempt returns, trying again while that can help.

        Raises:
            Failed: it cannot, or there is no time left for it.
        """
        start, number = self.clock(), 0
        while True:
            number += 1
            try:
                return attempt()
            except Failed as failed:
                wait_s = self._wait(failed.failure, number)
                if wait_s is None or wait_s >= self._left(failed.failure, start):
                    raise
                self.notify(f"The model's provider: {failed.failure.kind}; asking again in {wait_s:.0f} s.")
                if not self._rested(wait_s):
                    raise

    def _rested(self, seconds: float) -> bool:
        """Wait in short steps; say whether the run did not have to end meanwhile."""
        until = self.clock() + seconds
        while (rest := until - self.clock()) > 0:
            if self.time_left() <= 0:
                return False
            self.sleep(min(_STEP_S, rest))
        return True

    def _wait(self, failure: Failure, number: int) -> float | None:
        if not failure.kind.may_pass:
            return None
        if failure.kind is Kind.UNREADABLE and number >= REJECTED_REPLIES:
            return None
        own = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0 ** (number - 1)) * (0.75 + self.jitter() / 2)
        return max(own, failure.retry_after_s or 0.0)

    def _left(self, failure: Failure, start: float) -> float:
        budget = UNREACHABLE_BUDGET_S if failure.kind is Kind.UNREACHABLE else BUDGET_S
        return min(budget - (self.clock() - start), self.time_left())
