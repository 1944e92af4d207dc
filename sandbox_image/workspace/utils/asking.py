"""Hands a command over to the judge; its exit code is the command's."""

import os
import sys
from pathlib import Path
from typing import NoReturn

HOME = "CUDA_AGENT_JUDGE_HOME"
SESSION = "CUDA_AGENT_JUDGE_SESSION"


def ask(command: str, arguments: list[str]) -> NoReturn:
    """Become the judge's process; does not return."""
    for name in (HOME, SESSION):
        if not os.environ.get(name):
            _fail(f"${name} is not set: run this inside the sandbox of a run, not on its own", 2)
    workspace = Path(__file__).resolve().parent.parent
    judge = [sys.executable, "-I", os.environ[HOME], command, "--workspace", str(workspace), *arguments]
    try:
        os.execv(sys.executable, judge)
    except OSError as error:
        _fail(f"the judge cannot be started: {error.strerror}", 3)


def _fail(reason: str, code: int) -> NoReturn:
    print(f"[FAIL] {reason}", file=sys.stderr)
    raise SystemExit(code)
