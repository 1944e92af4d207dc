"""What the reference worker knows of an operator's cost: needs, ceilings, and eager's time by operation.

Nothing of it is measured beside a timed call, and none of it is a verdict.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from cuda_agent_judge import operator, recording
from cuda_agent_judge.analysis_text import analysis_text
from cuda_agent_judge.analyze import SEED, describe_device, traced
from cuda_agent_judge.ceilings import ceilings
from cuda_agent_judge.performance import performance
from cuda_agent_judge.performance_text import performance_text
from cuda_agent_judge.precision import apply_precision
from cuda_agent_judge.report import Report
from cuda_agent_judge.roofline import need_of
from cuda_agent_judge.session import Session
from cuda_agent_judge.timeline import operation_times

Call = Callable[[], Any]
MAX_OPERATIONS = 12
_FAULTS = (RuntimeError, OSError, ValueError, TypeError, KeyError, ArithmeticError)


def appraise(session: Session, analysis: Mapping[str, Any], run: Call | None, *, again: bool = False) -> dict[str, Any]:
    """Ceilings, needs and, where there is a way to `run` one marked call, eager's operations; or why there is nothing.

    `analysis` is a traced operator; with `again` the ceilings are measured once more.
    """
    try:
        found: dict[str, Any] = {
            "ceilings": ceilings(session.target, session.cache_dir, again=again).to_json(),
            "device": describe_device(session.target),
            "need": need_of(analysis, precision=session.effective_precision).to_json(),
        }
        if run is not None:
            found["operations"] = _operations(analysis, run, session.target)
    except _FAULTS as error:
        return {"unknown": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}
    return found


def appraise_here(
    session: Session, model: torch.nn.Module, inputs: Any, run: Call | None, *, again: bool
) -> dict[str, Any]:
    """The same for a model that is not traced yet, on inputs that it may change."""
    try:
        analysis = traced(model, inputs)
    except _FAULTS as error:
        return {"unknown": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}
    return appraise(session, analysis, run, again=again)


def extended(report: Report, session: Session) -> Report:
    """The report of `analyze` with what the operator costs on this device."""
    if report.analysis is None:
        return report
    apply_precision(session.effective_precision)
    loaded = operator.load(session.operator_dir)
    model = loaded.make_model(session.target)
    inputs = operator.clone_inputs(loaded.get_inputs(SEED, session.target))
    call = recording.marked(lambda: operator.call(model, inputs))

    def run() -> None:
        with torch.no_grad():
            call()

    made = performance(session.target, appraise(session, report.analysis, run), {}, headline="")
    details = [analysis_text(report.analysis), *performance_text(made)]
    return replace(report, performance=made, details="\n".join(details))


def _operations(analysis: Mapping[str, Any], run: Call, target: str) -> list[dict[str, Any]]:
    """By operation: calls, microseconds, and the bytes and arithmetic of all its calls; longest first."""
    costs: dict[str, list[int]] = {}
    for node in analysis["nodes"]:
        if not node["view"] and not node["implied"]:
            name = str(node["op"]).replace("aten.", "aten::", 1).partition(".")[0]
            entry = costs.setdefault(name, [0, 0])
            entry[0] += int(node["bytes"])
            entry[1] += int(node["flops"])
    run()  # what the first call tunes and allocates is no cost of the operator
    times = operation_times(recording.record(run, target), frozenset(costs))
    rows = [
        {"name": name, "calls": calls, "us": us, "bytes": costs[name][0], "flops": costs[name][1]}
        for name, (calls, us) in times.items()
    ]
    return sorted(rows, key=lambda row: -float(str(row["us"])))[:MAX_OPERATIONS]
