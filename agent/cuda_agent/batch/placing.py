"""Where runs are carried out: the protocol between the batch and whatever has room for runs."""

from types import TracebackType
from typing import Protocol, Self

from cuda_agent.batch.running import Attempt, Ended, Halt


class Engine(Protocol):
    """Carries out attempts, several at once. Used by one thread; leaving its `with` block leaves nothing running."""

    @property
    def slots(self) -> int:
        """How many attempts it has room for at once; may change while a batch is on its way."""
        ...

    @property
    def described(self) -> dict[str, str]:
        """What the batch's documents say of it."""
        ...

    def begin(self, attempt: Attempt) -> None:
        """Start an attempt; called only while there is room. It never raises for what becomes of the attempt.

        Raises:
            DiskError: what it keeps in the batch's folder could not be written; nothing was started.
        """
        ...

    def ended(self, timeout_s: float) -> list[Ended]:
        """Return what ended since the last call; waits up to `timeout_s` for the first.

        A run whose machine is lost comes back as ended, with the kind `lost`.
        """
        ...

    def halt(self, how: Halt) -> None:
        """Have everything that runs end before its time; `ended` brings it all the same."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
