"""The judge's questions on where the time goes, when a verdict stands: what comes back is read, never believed."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cuda_agent_judge.bounds import impossible
from cuda_agent_judge.performance import performance
from cuda_agent_judge.performance_text import performance_text
from cuda_agent_judge.processes import JudgeFault
from cuda_agent_judge.protocol import Kind
from cuda_agent_judge.ptxas import CompiledKernel
from cuda_agent_judge.report import Report
from cuda_agent_judge.roofline import Floor
from cuda_agent_judge.scoring import SUBMISSION
from cuda_agent_judge.timeline import Timeline
from cuda_agent_judge.workers import Refused, Workers

SPIN_US = 20_000
"""The device is held up while a recorded call is enqueued, as in a timed one: gaps are its own and not the host's."""
LIMIT_S = 60.0
"""For a call with the profiler around it, or for starting that."""


@dataclass(frozen=True)
class Known:
    """What the judge has by then."""

    compiled: Sequence[CompiledKernel] = ()
    enqueue_us: Mapping[str, float] = field(default_factory=dict)
    """How long the host takes to enqueue a call, by side; on `cuda`."""
    in_a_row_us: Mapping[str, float] = field(default_factory=dict)
    """How long a call took where many were queued in a row, by the judge's clock, by side; on `cuda`."""


@dataclass(frozen=True)
class Asked:
    """What came back."""

    appraised: Mapping[str, Any]
    timeline: Timeline | None = None
    unrecorded: str = ""
    """Why there is no timeline, where one was asked for."""


def start_profiler(workers: Workers, aside: contextlib.AbstractContextManager[None]) -> str:
    """Have the submission's process ready to record, while `aside` lends the device: that takes seconds.

    Returns why the device is not ours again, if so: the verdict stands, whoever has it now. What else fails is said
    when a call is to be recorded.
    """
    try:
        with aside, contextlib.suppress(Refused):
            workers.ask_candidate(Kind.RECORD, {"only_start": True}, limit_s=LIMIT_S)
    except JudgeFault as fault:
        return f"where the time goes was not looked at: {fault}"
    return ""


def ask(workers: Workers, *, operations: bool, record: bool) -> Asked:
    """Have the operator appraised, with eager's `operations`, and one more call of the submission recorded."""
    timeline, unrecorded = _recorded(workers) if record else (None, "")
    return Asked(_appraised(workers, operations=operations), timeline, unrecorded)


def ask_again(workers: Workers, asked: Asked) -> Asked:
    """The same with ceilings that were measured once more: those of a busy device are too low."""
    appraised = _appraised(workers, again=True)
    return replace(asked, appraised={**asked.appraised, **appraised})


def _appraised(workers: Workers, *, operations: bool = False, again: bool = False) -> Mapping[str, Any]:
    try:
        return workers.ask_reference(Kind.APPRAISE, {"operations": operations, "again": again})
    except (Refused, JudgeFault) as error:
        return {"unknown": str(error)}


def _recorded(workers: Workers) -> tuple[Timeline | None, str]:
    try:
        answer = workers.ask_candidate(Kind.RECORD, {"spin_us": SPIN_US}, limit_s=LIMIT_S)
        return Timeline.from_json(answer), ""
    except Refused as refusal:
        return None, refusal.reason
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        return None, f"what it says cannot be read ({str(error)[:200]})"


def explain(workers: Workers, report: Report, known: Known, *, operations: bool, record: bool) -> Report:
    """The report with where the time goes, as an object and as lines."""
    asked = ask(workers, operations=operations, record=record)
    made = _performance(report, asked, known)
    if made.get("at_limit"):
        made = _performance(report, ask_again(workers, asked), known)
    notes = [f"the kernels of a call could not be recorded: {asked.unrecorded}"] if asked.unrecorded else []
    made["lines"] = performance_text(made)
    if report.peak_memory_bytes:
        made["lines"].append(_peaks(report.peak_memory_bytes))
    if "floor" in made and SUBMISSION in report.latency_ms:
        doubt = impossible(report.latency_ms[SUBMISSION].median, Floor.from_json(made["floor"]))
        notes += [doubt] if doubt else []
    return replace(report, performance=made, notes=[*report.notes, *notes])


def _performance(report: Report, asked: Asked, known: Known) -> dict[str, Any]:
    return performance(
        report.target,
        asked.appraised,
        report.latency_ms,
        headline=report.headline,
        timeline=asked.timeline,
        compiled=known.compiled,
        enqueue_us=known.enqueue_us,
        in_a_row_us=known.in_a_row_us,
    )


def _peaks(peaks: Mapping[str, int]) -> str:
    return "peak memory: " + ", ".join(f"{side} {count / 1e6:.1f} MB" for side, count in peaks.items())
