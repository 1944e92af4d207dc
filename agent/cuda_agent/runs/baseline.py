"""Fills the machine's cache before a model or a submission is there, where the judge that follows may only read it."""

from contextlib import ExitStack, suppress

from cuda_agent.config import Settings
from cuda_agent.errors import JudgeError
from cuda_agent.files import DiskError
from cuda_agent.installing import Rules
from cuda_agent.judging import Judge
from cuda_agent.operators import Operator
from cuda_agent.runs.place import Place
from cuda_agent.runs.sandboxes import opened
from cuda_agent.runs.scratch import scratch
from cuda_agent_tools.sandbox import SandboxError

LIMIT_S = 300.0
"""Whatever takes longer is left to the judge that follows."""


def keep_baseline(place: Place, operator: Operator, settings: Settings, *, model: bool = True) -> None:
    """Have the baseline compiled in a sandbox of its own, in which there is nothing of a model and no submission.

    In the sandbox that follows a `model` runs commands, or none does. What goes wrong is not said: the judge in there
    compiles the baseline then, and says what is wrong with the operator.
    """
    if not place.cache_inside(model=model) or place.may_fill_cache(model=model):
        return
    with suppress(SandboxError, JudgeError, DiskError), ExitStack() as stack:
        workspace = stack.enter_context(scratch()) / "workspace"
        inside = stack.enter_context(opened(place, workspace=workspace, writes_cache=True))
        judge = Judge(inside.trusted, python=place.python)
        judge.install(operator, Rules.of(settings, place.target, locks=place.locks_inside, cache=place.cache))
        limit_s = LIMIT_S if settings.time_limit_s is None else min(LIMIT_S, settings.time_limit_s)
        judge.keep(timeout_s=limit_s)
