"""One warm process for many judgements: torch is imported once, and each is carried out in a process forked from it.

A request is a line of JSON on stdin, its answer one on stdout. A judgement has all defences but those that the request
switches off; `plain` asks the plain checker in place of the judge, for `limit_s` seconds at most. The process has the
environment of a judge.
"""

import importlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def main(argv: list[str]) -> int:
    """Serve requests until stdin ends; `argv` names the target, the judge's home and the place of the plain checker."""
    sys.path[:0] = argv[2:]
    # What every judgement would import again, and on `cpu` every baseline; with a GPU that might keep it from forking.
    for name in ("cuda_agent_judge.commands", *(["torch._inductor.compile_fx"] if argv[1] == "cpu" else [])):
        importlib.import_module(name)
    from cuda_agent_judge import environment
    from cuda_agent_judge.isolation import be_seen
    from cuda_agent_judge.processes import become_subreaper, check_untouched

    environment.settle()
    become_subreaper()
    be_seen()  # beside a plain checker everything is open to its user, also where a kernel keeps memory to parents
    check_untouched()
    for line in sys.stdin:
        request = json.loads(line)
        task = plain if request["plain"] else judge
        print(json.dumps(carried_out(request, task)), flush=True)
    return 0


def carried_out(request: dict[str, Any], task: Callable[[dict[str, Any]], int]) -> dict[str, Any]:
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
    """Carry one command of the judge out."""
    from cuda_agent_judge import output
    from cuda_agent_judge.commands import Request, execute
    from cuda_agent_judge.defences import Defences
    from cuda_agent_judge.session import load

    session, workspace = load(Path(request["session"])), Path(request["workspace"])
    how = {name: request.get(name, False) for name in ("final", "baseline")}
    asked = Request(request["command"], session, workspace, nonce=request["nonce"], **how)
    report = execute(asked, defences=Defences(**request["defences"]))
    output.write_report(Path(request["report"]), report)
    output.show(report, as_json=False)
    return output.exit_code(report)


def plain(request: dict[str, Any]) -> int:
    """Have the plain checker look at a folder."""
    signal.alarm(request["limit_s"])
    import plain_checker

    return plain_checker.main([request["workspace"], request["target"], request["library"]])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv))
