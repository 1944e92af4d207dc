"""What the reference worker knows of an operator's cost: needs, ceilings, and eager's time by operation.

Nothing of it is measured beside a timed call, and none of it is a verdict.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from cuda_agent_judge import operator
from cuda_agent_judge.analyze import SEED, describe_device, traced
from cuda_agent_judge.ceilings import ceilings
from cuda_agent_judge.machine_cache import MachineCache
from cuda_agent_judge.operation_times import Call, operation_times
from cuda_agent_judge.performance import performance
from cuda_agent_judge.performance_text import performance_text
from cuda_agent_judge.precision import apply_precision
from cuda_agent_judge.report import Report
from cuda_agent_judge.roofline import need_of
from cuda_agent_judge.session import Session
from cuda_agent_judge.steps import Steps

Ready = Callable[[], Call]
MAX_OPERATIONS = 12
_FAULTS = (RuntimeError, OSError, ValueError, TypeError, KeyError, ArithmeticError)


def appraise(
    session: Session,
    analysis: Mapping[str, Any],
    ready: Ready | None,
    *,
    again: bool = False,
    cache: MachineCache | None = None,
) -> dict[str, Any]:
    """Ceilings, needs and, where a call can be made, eager's operations; or why there is nothing.

    `analysis` is a traced operator, `ready` prepares inputs and returns the call. With `again` the ceilings are
    measured once more.
    """
    try:
        found: dict[str, Any] = {
            "ceilings": ceilings(session.target, session.cache_dir, again=again, cache=cache).to_json(),
            "device": describe_device(session.target),
            "need": need_of(analysis, precision=session.effective_precision).to_json(),
        }
        if ready is not None:
            found["operations"] = _operations(analysis, ready, session.target)
    except _FAULTS as error:
        return _unknown(error)
    return found


def appraise_here(
    session: Session,
    model: torch.nn.Module,
    inputs: Any,
    ready: Ready | None,
    *,
    again: bool,
    cache: MachineCache | None = None,
) -> dict[str, Any]:
    """The same for a model that is not traced yet, on inputs that it may change."""
    try:
        analysis = traced(model, inputs)
    except _FAULTS as error:
        return _unknown(error)
    return appraise(session, analysis, ready, again=again, cache=cache)


def extended(report: Report, session: Session, steps: Steps, cache: MachineCache | None = None) -> Report:
    """The report of `analyze` with what the operator costs on this device."""
    if report.analysis is None:
        return report
    made = performance(session.target, _appraise_anew(session, report.analysis, steps, cache), {}, headline="")
    made["lines"] = performance_text(made)
    return replace(report, performance=made)


def _appraise_anew(
    session: Session, analysis: Mapping[str, Any], steps: Steps, cache: MachineCache | None
) -> dict[str, Any]:
    apply_precision(session.effective_precision)
    try:
        loaded = operator.load(session.operator_dir, steps)
        model = loaded.make_model(session.target)
        inputs = operator.clone_inputs(loaded.get_inputs(SEED, session.target))
    except (operator.OperatorFault, *_FAULTS) as error:
        return _unknown(error)

    def call() -> Any:
        with steps.step("forward, while its operations are timed,"):
            return operator.call(model, inputs)

    return appraise(session, analysis, lambda: call, cache=cache)


def _unknown(error: Exception) -> dict[str, Any]:
    return {"unknown": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}


def _operations(analysis: Mapping[str, Any], ready: Ready, target: str) -> list[dict[str, Any]]:
    """By operation: calls, microseconds, and the bytes and arithmetic of all its calls; longest first."""
    costs: dict[str, list[int]] = {}
    for node in analysis["nodes"]:
        if not node["view"] and not node["implied"]:
            entry = costs.setdefault(str(node["op"]).removeprefix("aten.").partition(".")[0], [0, 0])
            entry[0] += int(node["bytes"])
            entry[1] += int(node["flops"])
    rows = [
        {"name": name, "calls": calls, "us": us, "bytes": costs[name][0], "flops": costs[name][1]}
        for name, (calls, us) in operation_times(ready, target, len(analysis["nodes"])).items()
        if name in costs
    ]
    return sorted(rows, key=lambda row: -float(str(row["us"])))[:MAX_OPERATIONS]
