"""One command from request to report: seals the submission, has the roles forked, reads the judge's answer."""

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cuda_agent_judge import compare, isolation, processes
from cuda_agent_judge.defences import ALL, Defences
from cuda_agent_judge.judge import Judgement
from cuda_agent_judge.loops import serve_candidate, serve_reference
from cuda_agent_judge.phases import Phases
from cuda_agent_judge.processes import Attached, JudgeEnds, JudgeFault, Roles
from cuda_agent_judge.protocol import Channel
from cuda_agent_judge.report import Command, Report
from cuda_agent_judge.session import Session
from cuda_agent_judge.slots import WAIT_LIMIT_S
from cuda_agent_judge.sources import SourceFault
from cuda_agent_judge.submission import Sealed, SubmissionMissing, seal, workspace_notes
from cuda_agent_judge.toolchain import compilers
from cuda_agent_judge.workers import Refused, SharingFault

_SHARING, _FAULT = "sharing_fault", "judge_fault"
_TEMPLATE = Path(__file__).resolve().parent.parent / "workspace"
_WAITS = 6
"""How often it gets in line for the device or a place to compile, at most."""
_CALLS = 400
"""How many calls a judgement makes at most, for the limit on the judge itself."""


@dataclass(frozen=True)
class Request:
    """What was asked."""

    command: Command
    session: Session
    workspace: Path
    final: bool = False
    baseline: bool = False
    nonce: str = ""
    began: float = field(default_factory=time.monotonic)
    """When it was asked, by the monotonic clock."""
    spent: Mapping[str, float] = field(default_factory=dict)
    """Seconds by stage that went by before it was carried out."""


def execute(request: Request, attached: Attached | None = None, defences: Defences = ALL) -> Report:
    """Carry out a request, with a reference worker that stands already where there is one; it has all `defences`.

    Raises:
        JudgeFault: the judge failed.
    """
    folder = Path(tempfile.mkdtemp(prefix="cuda-agent-judge-"))
    folder.chmod(0o755)
    phases = Phases(request.spent)
    try:
        report = _execute(request, folder, phases, attached, defences)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return replace(report, phases=report.phases | {"total": round(time.monotonic() - request.began, 3)})


def _execute(request: Request, folder: Path, phases: Phases, attached: Attached | None, defences: Defences) -> Report:
    session = request.session
    final = request.final and request.command == "verdict"
    report = empty_report(request.command, session, final=final, nonce=request.nonce)
    sealed: Sealed | None = None
    with phases.stage("seal"):
        if request.command not in ("analyze", "keep") and not (request.command == "profile" and request.baseline):
            try:
                sealed = seal(request.workspace, folder, needs_module=request.command != "compile")
                notes = workspace_notes(request.workspace, session.operator_dir, _TEMPLATE)
            except SubmissionMissing as error:
                return replace(report, status="incorrect", reason=str(error))
            except SourceFault as error:
                return replace(report, status="compile_error", reason=str(error))
            report = replace(report, submission_sha256=sealed.sha256, notes=notes)
        identity = None if sealed is None else isolation.candidate_identity([sealed.folder])
    if identity is not None and not session.model_shares_uid:
        report = replace(report, isolation="separate-uid")
    on_gpu = session.target == "cuda" and sealed is not None and request.command != "compile"
    scratch = isolation.scratch_for(identity, folder)
    candidate = serve_candidate(identity, scratch, defences, on_gpu=on_gpu)
    asked = _Asked(request, report, sealed, phases, defences)
    answer = _run(asked, candidate, attached, ipc=True)
    if _SHARING in answer:
        # CUDA IPC does not work everywhere; the parent is as warm as before, so the roles simply start once more.
        answer = _run(asked, candidate, None, ipc=False)
    if _SHARING in answer:
        raise JudgeFault(f"the workers cannot share memory: {answer[_SHARING]}")
    if _FAULT in answer:
        raise JudgeFault(str(answer[_FAULT]))
    try:
        return Report.from_json(json.dumps(answer))
    except ValueError as error:
        raise JudgeFault(str(error)) from error


@dataclass(frozen=True)
class _Asked:
    """A request with what is known before anything is forked for it."""

    request: Request
    report: Report
    sealed: Sealed | None
    phases: Phases
    defences: Defences


def _run(
    asked: _Asked, candidate: Callable[[Channel], None], attached: Attached | None, *, ipc: bool
) -> dict[str, Any]:
    session = asked.request.session
    began = time.monotonic()
    roles = Roles(
        judge=lambda ends: _judge(asked, ends, began, ipc=ipc),
        reference=attached or serve_reference(session, asked.defences, alone=asked.request.command == "keep"),
        candidate=candidate,
    )
    limit = session.build_timeout_s + _CALLS * 2 + 10 * session.call_timeout_s + 1800 + _WAITS * WAIT_LIMIT_S
    return processes.run_roles(roles, limit)


def _judge(asked: _Asked, ends: JudgeEnds, began: float, *, ipc: bool) -> dict[str, Any]:
    asked.phases.add("fork", time.monotonic() - began)
    session, sealed = asked.request.session, asked.sealed
    needed = None if sealed is None else [sealed.folder, *compilers(session.target)]
    builder = None if needed is None else isolation.candidate_identity(needed)
    judgement = Judgement(session, asked.report, ends, builder, asked.phases, asked.defences, ipc=ipc)
    task = _task(asked.request, sealed, judgement)
    try:
        task()
    except Refused as refusal:
        judgement.report = replace(
            judgement.report, status=refusal.status, reason=refusal.reason, details=refusal.details
        )
    except SharingFault as fault:
        return {_SHARING: str(fault)}
    except JudgeFault as fault:
        return {_FAULT: str(fault)}
    report = replace(judgement.accounted, phases=asked.phases.so_far())
    answer: dict[str, Any] = json.loads(report.to_json())
    return answer


def _task(request: Request, sealed: Sealed | None, judgement: Judgement) -> Callable[[], None]:
    if request.command == "analyze":
        return judgement.analyze
    if request.command == "keep":
        return judgement.keep
    if sealed is None:
        return judgement.baseline
    copy = sealed
    if request.command == "compile":
        return lambda: judgement.build_only(copy)
    return lambda: judgement.submission(copy, timed=request.command != "verify")


def empty_report(command: Command, session: Session, *, final: bool, nonce: str) -> Report:
    """A report of what is known before anything ran."""
    return Report(
        command,
        "inconclusive",
        final=final,
        nonce=nonce,
        target=session.target,
        rules={
            "precision": session.effective_precision,
            "libraries": session.libraries,
            "output_lifetime": session.output_lifetime,
            "baseline": "torch.compile default mode",
            "tolerance": compare.RULE,
        },
    )
