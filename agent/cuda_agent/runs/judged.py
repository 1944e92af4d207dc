"""The judge alone, on a folder with a submission: nothing is run but the final verdict."""

import os
import stat
from contextlib import ExitStack
from pathlib import Path

from cuda_agent.config import Settings
from cuda_agent.errors import ConfigError, OperatorError
from cuda_agent.judging import SUBMISSION, Judge, Rules, Submission, environment
from cuda_agent.operators import load
from cuda_agent.resources import tree, workspace_template
from cuda_agent.runs.place import choose
from cuda_agent.runs.scratch import scratch
from cuda_agent.runs.signals import Signals
from cuda_agent.sandbox.local import LocalSandbox
from cuda_agent.trajectory import Listener, StageStarted
from cuda_agent_judge.report import Report

_BINDINGS = ("binding.cpp", "binding_registry.h")


def judge(settings: Settings, folder: Path, *, listener: Listener) -> Report:
    """Take the final verdict on `folder` (model_new.py, kernels/, perhaps its own binding files).

    Raises:
        ConfigError: there is no submission in it.
        OperatorError: the operator cannot be used.
        JudgeError, SandboxError: the machinery failed.
    """
    operator = load(settings.operator)
    submission = _read(folder)
    place = choose(settings)
    rules = Rules(
        target=place.target,
        precision="ieee" if place.target == "cpu" else settings.precision,
        libraries=settings.libraries,
        output_lifetime=settings.output_lifetime,
    )
    with Signals() as signals, ExitStack() as stack:
        base = stack.enter_context(scratch())
        state = base / "state"
        sandbox = stack.enter_context(
            LocalSandbox(
                workspace=base / "workspace",
                state_dir=state,
                python=place.python,
                extra_env=environment(str(state)),
            )
        )
        stack.callback(signals.shield)
        client = Judge(sandbox, python=str(place.python))
        client.install(operator, rules)
        listener.on_event(StageStarted(0, "final verdict"))
        report = client.final_verdict(submission, on_output=listener.on_output)
    if report.status == "operator_error":
        raise OperatorError(f"{str(operator.path)!r} cannot be used: {report.reason}")
    return report


def _read(folder: Path) -> Submission:
    if not (folder / SUBMISSION).is_file():
        raise ConfigError(f"{str(folder)!r} has no {SUBMISSION}; name a folder with {SUBMISSION} and kernels/.")
    names = [SUBMISSION, *_BINDINGS]
    if (folder / "kernels").is_dir():
        names += [path.relative_to(folder).as_posix() for path in sorted((folder / "kernels").rglob("*"))]
    files = {name: (folder / name).read_bytes() for name in names if _regular(folder / name)}
    template = tree(workspace_template())
    for name in _BINDINGS:
        if name in template:
            files.setdefault(name, template[name])
    return Submission(files)


def _regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False
