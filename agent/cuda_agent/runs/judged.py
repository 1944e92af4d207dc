"""The judge alone, on a folder with a submission: nothing is run but the final verdict."""

import os
import stat
from contextlib import ExitStack
from pathlib import Path

from cuda_agent.config import Settings
from cuda_agent.errors import ConfigError, OperatorError
from cuda_agent.installing import Rules
from cuda_agent.judging import SUBMISSION, Judge, Submission
from cuda_agent.operators import load
from cuda_agent.runs.baseline import keep_baseline
from cuda_agent.runs.place import choose
from cuda_agent.runs.sandboxes import opened
from cuda_agent.runs.scratch import scratch
from cuda_agent.runs.signals import Signals
from cuda_agent.trajectory import Listener, StageStarted
from cuda_agent_judge.report import Report


def judge(settings: Settings, folder: Path, *, listener: Listener) -> Report:
    """Take the final verdict on `folder` (model_new.py, kernels/), or on a file that is the model_new.py.

    Raises:
        ConfigError: there is no submission in it.
        OperatorError: the operator cannot be used.
        JudgeError, SandboxError: the machinery failed.
    """
    operator = load(settings.operator)
    submission = submission_at(folder)
    place = choose(settings)
    with Signals() as signals, ExitStack() as stack:
        keep_baseline(
            place,
            operator,
            settings,
            begun=lambda: listener.on_event(StageStarted(0, "baseline")),
            model=False,
        )
        workspace = stack.enter_context(scratch()) / "workspace"
        inside = stack.enter_context(opened(place, workspace=workspace, writes_cache=place.may_fill_cache(model=False)))
        stack.callback(signals.shield)
        client = Judge(inside.trusted, python=place.python, judge_home=place.judge_home)
        cache = place.cache_inside(model=False)
        client.install(operator, Rules.of(settings, place.target, locks=place.locks_inside, cache=cache))
        listener.on_event(StageStarted(0, "final verdict"))
        report = client.final_verdict(submission, on_output=listener.on_output)
    if report.status == "operator_error":
        raise OperatorError(f"{str(operator.path)!r} cannot be used: {report.reason}")
    return report


def submission_at(path: Path) -> Submission:
    """Read a submission: a folder with model_new.py and kernels/ (plain files only), or one model_new.py alone.

    Raises:
        ConfigError: there is none.
    """
    if os.path.isfile(path):
        return Submission({SUBMISSION: path.read_bytes()})
    if not os.path.isfile(path / SUBMISSION):
        raise ConfigError(
            f"{str(path)!r} has no {SUBMISSION}; name a folder with {SUBMISSION} and kernels/, or one file."
        )
    paths = [path / SUBMISSION, *sorted((path / "kernels").rglob("*"))]
    return Submission({file.relative_to(path).as_posix(): file.read_bytes() for file in paths if _regular(file)})


def _regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False
