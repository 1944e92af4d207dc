"""One command to its end: carried out, recorded, handed over and shown; returns the exit code."""

import contextlib
import sys
from collections.abc import Callable

from cuda_agent_judge import output
from cuda_agent_judge.commands import Request, execute
from cuda_agent_judge.processes import Attached, JudgeFault
from cuda_agent_judge.report import Report


def answer(
    request: Request, *, as_json: bool, deliver: Callable[[Report], None], attached: Attached | None = None
) -> int:
    """Carry the request out; `deliver` gets the report."""
    try:
        report = execute(request, attached)
    except JudgeFault as error:
        print(f"[FAIL] the judge failed: {error}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130
    if report.command != "analyze":
        request.session.record(report)
    deliver(report)
    with contextlib.suppress(BrokenPipeError):
        output.show(report, as_json=as_json)
    return output.exit_code(report)
