"""Why a run ends, and what bounds it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

TimeLeft = Callable[[], float]
"""Seconds until the run must end; infinite where there is no limit."""


class StopReason(StrEnum):
    """One word for run.json; `Stop.detail` has the sentence."""

    TARGET_REACHED = "target_reached"
    GAVE_UP = "gave_up"
    AT_HARDWARE_LIMIT = "at_hardware_limit"
    MAX_TURNS = "max_turns"
    BUDGET = "budget"
    TIME_LIMIT = "time_limit"
    STUCK = "stuck"
    REFUSED = "refused"
    MODEL_ERROR = "model_error"
    SANDBOX_LOST = "sandbox_lost"
    INTERRUPTED = "interrupted"

    @property
    def exit_code(self) -> int:
        """Return what the program exits with after such a run."""
        match self:
            case StopReason.TARGET_REACHED:
                return 0
            case StopReason.MODEL_ERROR | StopReason.SANDBOX_LOST:
                return 3
            case StopReason.INTERRUPTED:
                return 130
            case _:
                return 1


@dataclass(frozen=True)
class Stop:
    """The end of a run."""

    reason: StopReason
    detail: str = ""
    kind: str = ""
    """What failed, in one word, where the model's provider did (authentication, quota, ...)."""


@dataclass(frozen=True)
class Limits:
    """What bounds a run besides its time."""

    max_turns: int = 200
    polish: int = 0
    """So many more turns once the target is reached."""
    finals: int = 3
    """Final verdicts while the loop runs; the closing one is not counted."""
    idle_replies: int = 3
    """So many replies in a row without a call and without a changed submission are `stuck`."""
    repeats_nudge: int = 4
    """The same call with the same result so often, the submission unchanged: the model is told."""
    repeats_stuck: int = 8
    """... and so often: the run is `stuck`."""
