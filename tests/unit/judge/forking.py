"""The program that judges with defences switched off (bench/sandboxed/judged.py), as the tests need it.

It has imported all that a baseline needs, so that each judgement is quick. `plain` in a request asks the plain checker
in place of the judge, for `limit_s` seconds at most.
"""

import importlib
import signal
import sys
from pathlib import Path
from typing import Any

SANDBOXED = Path(__file__).resolve().parents[3] / "bench/sandboxed"


def main(argv: list[str]) -> int:
    """Serve requests until stdin ends; `argv` names the target, the judge's home and the place of the plain checker."""
    sys.path[:0] = [*argv[2:], str(SANDBOXED)]
    # What every judgement would import again, and on `cpu` every baseline; with a GPU that might keep it from forking.
    for name in ("cuda_agent_judge.commands", *(["torch._inductor.compile_fx"] if argv[1] == "cpu" else [])):
        importlib.import_module(name)
    from cuda_agent_judge.isolation import be_seen

    judged = importlib.import_module("judged")
    be_seen()  # beside a plain checker everything is open to its user, also where a kernel keeps memory to parents
    judged.serve(lambda request: plain(request) if request["plain"] else judged.judge(request))
    return 0


def plain(request: dict[str, Any]) -> int:
    """Have the plain checker look at a folder."""
    signal.alarm(request["limit_s"])
    import plain_checker

    return plain_checker.main([request["workspace"], request["target"], request["library"]])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv))
