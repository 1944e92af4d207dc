"""Judgements one after another, each in fresh processes forked from this one, which has imported torch and no more.

    PYTHON -I -B bench/sandboxed/judged.py JUDGE_HOME

A line of stdin is an order: {"session": DIR, "workspace": DIR, "slower": {SIDE: SHARE}, "report": FILE}. When its final
verdict lies in FILE, the exit code is a line of stdout. The environment has to be the judge's own.
"""

import ctypes
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

JUDGE_FAILED = 3
PR_SET_PDEATHSIG = 1


def main(home: str) -> int:
    """Judge until stdin ends, or whoever started this: what it has forked ends with it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    sys.path.insert(0, home)
    from cuda_agent_judge import environment, process_tree, processes

    environment.settle()
    from cuda_agent_judge import commands  # noqa: F401  # torch

    answers = os.dup(1)
    os.dup2(2, 1)  # what a submission prints goes where errors go
    processes.become_subreaper()
    for line in sys.stdin:
        order = json.loads(line)
        _, status = os.waitpid(processes.fork(lambda order=order: judge(order)), 0)  # type: ignore[misc]
        process_tree.kill_descendants()
        os.write(answers, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    return 0


def judge(order: dict[str, Any]) -> None:
    """Have a final verdict written; does not return."""
    from cuda_agent_judge import output, session
    from cuda_agent_judge.commands import Request, execute
    from cuda_agent_judge.defences import Defences
    from cuda_agent_judge.processes import JudgeFault

    request = Request("verdict", session.load(Path(order["session"])), Path(order["workspace"]), final=True)
    try:
        report = execute(request, defences=Defences(slower=order["slower"]))
    except JudgeFault as fault:
        print(f"the judge failed: {fault}", file=sys.stderr)
        sys.stderr.flush()
        os._exit(JUDGE_FAILED)
    output.write_report(Path(order["report"]), report)
    os._exit(output.exit_code(report))


if __name__ == "__main__":
    try:
        raise SystemExit(main(sys.argv[1]))
    except KeyboardInterrupt:  # whoever orders judgements has heard it, too
        os._exit(130)
