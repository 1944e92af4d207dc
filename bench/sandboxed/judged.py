"""Judgements one after another, each in processes forked from this one, which has imported torch and no more.

    PYTHON -I -B bench/sandboxed/judged.py JUDGE_HOME

A line of stdin is a request: {"session": DIR, "workspace": DIR, "report": FILE, "command": NAME, "nonce": TEXT,
"defences": {}} and, where they are true, "final" and "baseline". `defences` is what no option of the judge can do: it
names those that are switched off or changed. When the report lies in FILE, a line of stdout answers: {"code",
"stdout", "stderr"}. The environment has to be the judge's own.
"""

import ctypes
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

JUDGE_FAILED = 3
PR_SET_PDEATHSIG = 1


def main(home: str) -> int:
    """Judge until stdin ends, or whoever started this: what it has forked ends with it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    sys.path.insert(0, home)
    from cuda_agent_judge import commands  # noqa: F401  # torch

    serve(judge)
    return 0


def serve(task: Callable[[dict[str, Any]], int]) -> None:
    """Carry out requests until stdin ends; all that they need is imported."""
    from cuda_agent_judge import environment, processes

    environment.settle()
    processes.become_subreaper()
    processes.check_untouched()
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(_carried_out(request, task)), flush=True)


def _carried_out(request: dict[str, Any], task: Callable[[dict[str, Any]], int]) -> dict[str, Any]:
    """Do it in a process of its own; returns the exit code and what was printed."""
    from cuda_agent_judge.process_tree import kill_descendants
    from cuda_agent_judge.processes import fork

    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:

        def child() -> None:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
            sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
            raise SystemExit(task(request))

        _, status = os.waitpid(fork(child), 0)
        kill_descendants()
        shown = []
        for stream in (out, err):
            stream.seek(0)
            shown.append(stream.read().decode("utf-8", "replace"))
    return {"code": os.waitstatus_to_exitcode(status), "stdout": shown[0], "stderr": shown[1]}


def judge(request: dict[str, Any]) -> int:
    """Carry one command of the judge out; returns the exit code."""
    from cuda_agent_judge import output
    from cuda_agent_judge.commands import Request, execute
    from cuda_agent_judge.defences import Defences
    from cuda_agent_judge.processes import JudgeFault
    from cuda_agent_judge.session import load

    session, workspace = load(Path(request["session"])), Path(request["workspace"])
    how = {name: request.get(name, False) for name in ("final", "baseline")}
    asked = Request(request["command"], session, workspace, nonce=request["nonce"], **how)
    try:
        report = execute(asked, defences=Defences(**request["defences"]))
    except JudgeFault as fault:
        print(f"the judge failed: {fault}", file=sys.stderr)
        return JUDGE_FAILED
    output.write_report(Path(request["report"]), report)
    output.show(report, as_json=False)
    return output.exit_code(report)


if __name__ == "__main__":
    try:
        raise SystemExit(main(sys.argv[1]))
    except KeyboardInterrupt:  # whoever orders judgements has heard it, too
        os._exit(130)
