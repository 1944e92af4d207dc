"""One command from request to report: seals the submission, has the roles forked, reads the judge's answer."""

import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cuda_agent_judge import isolation, processes
from cuda_agent_judge.judge import Judgement, empty_report
from cuda_agent_judge.processes import JudgeEnds, JudgeFault, Roles
from cuda_agent_judge.protocol import Channel
from cuda_agent_judge.report import Command, Report
from cuda_agent_judge.session import Session
from cuda_agent_judge.slots import WAIT_LIMIT_S
from cuda_agent_judge.sources import SourceFault
from cuda_agent_judge.submission import Sealed, SubmissionMissing, seal, workspace_notes
from cuda_agent_judge.toolchain import compilers
from cuda_agent_judge.workers import Refused, SharingFault, serve_candidate, serve_reference

_SHARING = "sharing_fault"
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


def execute(request: Request) -> Report:
    """Carry out a request.

    Raises:
        JudgeFault: the judge failed.
    """
    folder = Path(tempfile.mkdtemp(prefix="cuda-agent-judge-"))
    folder.chmod(0o755)
    try:
        return _execute(request, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _execute(request: Request, folder: Path) -> Report:
    session = request.session
    final = request.final and request.command == "verdict"
    report = empty_report(request.command, session, final=final, nonce=request.nonce)
    sealed: Sealed | None = None
    if request.command != "analyze" and not (request.command == "profile" and request.baseline):
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
    candidate = serve_candidate(identity, isolation.scratch_for(identity, folder), on_gpu=on_gpu)
    answer = _run(request, report, sealed, candidate, ipc=True)
    if _SHARING in answer:
        # CUDA IPC does not work everywhere; the parent is as warm as before, so the roles simply start once more.
        answer = _run(request, report, sealed, candidate, ipc=False)
    if _SHARING in answer:
        raise JudgeFault(f"the workers cannot share memory: {answer[_SHARING]}")
    try:
        return Report.from_json(json.dumps(answer))
    except ValueError as error:
        raise JudgeFault(str(error)) from error


def _run(
    request: Request, report: Report, sealed: Sealed | None, candidate: Callable[[Channel], None], *, ipc: bool
) -> dict[str, Any]:
    session = request.session
    roles = Roles(
        judge=lambda ends: _judge(request, report, sealed, ends),
        reference=serve_reference(session, ipc=ipc),
        candidate=candidate,
    )
    limit = session.build_timeout_s + _CALLS * 2 + 10 * session.call_timeout_s + 1800 + _WAITS * WAIT_LIMIT_S
    return processes.run_roles(roles, limit)


def _judge(request: Request, report: Report, sealed: Sealed | None, ends: JudgeEnds) -> dict[str, Any]:
    needed = None if sealed is None else [sealed.folder, *compilers(request.session.target)]
    builder = None if needed is None else isolation.candidate_identity(needed)
    judgement = Judgement(request.session, report, ends, builder)
    task = _task(request, sealed, judgement)
    try:
        task()
    except Refused as refusal:
        judgement.report = replace(
            judgement.report, status=refusal.status, reason=refusal.reason, details=refusal.details
        )
    except SharingFault as fault:
        return {_SHARING: str(fault)}
    answer: dict[str, Any] = json.loads(judgement.accounted.to_json())
    return answer


def _task(request: Request, sealed: Sealed | None, judgement: Judgement) -> Callable[[], None]:
    if request.command == "analyze":
        return judgement.analyze
    if sealed is None:
        return judgement.baseline
    copy = sealed
    if request.command == "compile":
        return lambda: judgement.build_only(copy)
    return lambda: judgement.submission(copy, timed=request.command != "verify")
