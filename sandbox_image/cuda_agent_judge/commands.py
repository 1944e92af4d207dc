"""One command from request to report: seals the submission, has the roles forked, reads the judge's answer."""

import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cuda_agent_judge import processes
from cuda_agent_judge.judge import Judgement, empty_report
from cuda_agent_judge.processes import JudgeEnds, JudgeFault, Roles
from cuda_agent_judge.report import Command, Report
from cuda_agent_judge.session import Session
from cuda_agent_judge.submission import Submission, SubmissionMissing, seal
from cuda_agent_judge.workers import Refused, serve_candidate, serve_reference

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
    sealed = Path(tempfile.mkdtemp(prefix="cuda-agent-judge-"))
    sealed.chmod(0o755)
    try:
        return _execute(request, sealed)
    finally:
        shutil.rmtree(sealed, ignore_errors=True)


def _execute(request: Request, sealed: Path) -> Report:
    session = request.session
    final = request.final and request.command == "verdict"
    report = empty_report(request.command, session, final=final, nonce=request.nonce)
    submission: Submission | None = None
    if request.command in ("verify", "verdict") or (request.command == "profile" and not request.baseline):
        try:
            submission = seal(request.workspace, sealed)
        except SubmissionMissing as error:
            return replace(report, status="incorrect", reason=str(error))
        report = replace(report, submission_sha256=submission.sha256)
    roles = Roles(
        judge=lambda ends: _judge(request, report, submission, ends),
        reference=serve_reference(session),
        candidate=serve_candidate(None),
    )
    limit = session.build_timeout_s + _CALLS * 2 + 10 * session.call_timeout_s + 1800
    answer = processes.run_roles(roles, limit)
    try:
        return Report.from_json(json.dumps(answer))
    except ValueError as error:
        raise JudgeFault(str(error)) from error


def _judge(request: Request, report: Report, submission: Submission | None, ends: JudgeEnds) -> dict[str, Any]:
    judgement = Judgement(request.session, report, ends)
    task = _task(request, submission, judgement)
    try:
        task()
    except Refused as refusal:
        judgement.report = replace(
            judgement.report, status=refusal.status, reason=refusal.reason, details=refusal.details
        )
    answer: dict[str, Any] = json.loads(judgement.report.to_json())
    return answer


def _task(request: Request, submission: Submission | None, judgement: Judgement) -> Callable[[], None]:
    if request.command == "compile":
        return lambda: judgement.build_only(request.workspace)
    if submission is None:
        return judgement.baseline
    timed = request.command != "verify"
    sealed = submission
    return lambda: judgement.submission(request.workspace, sealed, timed=timed)
