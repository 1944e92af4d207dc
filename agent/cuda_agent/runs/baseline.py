"""Fills the machine's cache before a model or a submission is there, where the judge that follows may only read it."""

import math
from collections.abc import Callable
from contextlib import ExitStack, suppress

from cuda_agent.config import Settings
from cuda_agent.errors import JudgeError
from cuda_agent.files import DiskError
from cuda_agent.installing import Rules
from cuda_agent.judging import Judge
from cuda_agent.loop.stop import TimeLeft
from cuda_agent.operators import Operator
from cuda_agent.runs.place import Place
from cuda_agent.runs.sandboxes import opened
from cuda_agent.runs.scratch import scratch
from cuda_agent_tools.sandbox import SandboxError

LIMIT_S = 300.0
"""Whatever takes longer is left to the judge that follows."""
SHARE = 0.25
"""Of the time that a run has left; the rest is for its turns."""
LEAST_S = 5.0
"""Nothing is compiled in less."""


def keep_baseline(
    place: Place,
    operator: Operator,
    settings: Settings,
    *,
    time_left: TimeLeft = lambda: math.inf,
    begun: Callable[[], None] = lambda: None,
    model: bool = True,
) -> None:
    """Have the baseline compiled in a sandbox of its own, in which there is nothing of a model and no submission.

    In the sandbox that follows a `model` runs commands, or none does. `begun` is called when compiling begins: what an
    earlier run left is found without a word. What goes wrong is not said: the judge in there compiles the baseline
    then, and says what is wrong with the operator.
    """
    if not place.cache_inside(model=model) or place.may_fill_cache(model=model):
        return
    limit_s = limit_of(time_left())
    if limit_s < LEAST_S:
        return
    # A hanging step must end in here: the judge that follows says so and needs time of its own for it.
    hurried = settings.model_copy(update={"operator_timeout_s": min(settings.operator_timeout_s, limit_s / 2)})
    with suppress(SandboxError, JudgeError, DiskError, OSError), ExitStack() as stack:
        workspace = stack.enter_context(scratch()) / "workspace"
        inside = stack.enter_context(opened(place, workspace=workspace, writes_cache=True))
        judge = Judge(inside.trusted, python=place.python)
        judge.install(operator, Rules.of(hurried, place.target, locks=place.locks_inside, cache=place.cache))
        judge.keep(timeout_s=limit_s, on_output=_Once(begun))


class _Once:
    """Passes the first piece of output on, as the fact that there is one."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._calls = [call]

    def __call__(self, _: bytes) -> None:
        while self._calls:
            self._calls.pop()()


def limit_of(left_s: float) -> float:
    """Return for how many seconds it may go on where a run has `left_s` of them."""
    return min(LIMIT_S, left_s * SHARE)
