"""The judge's command line: arguments in, a report out."""

import argparse
import contextlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from cuda_agent_judge import environment, output
from cuda_agent_judge.phases import Phases, process_age_s
from cuda_agent_judge.serve import ServeFault, serve
from cuda_agent_judge.session import Session, SessionFault, load

COMMANDS = ("analyze", "compile", "verify", "profile", "verdict", "serve")
HOME = Path(__file__).resolve().parents[1]


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="judge", description="Judge a submission against its operator.")
    made.add_argument("command", choices=COMMANDS, help="docs/judge.md describes each")
    made.add_argument("--session", type=Path, help="session directory; default $CUDA_AGENT_JUDGE_SESSION")
    made.add_argument("--workspace", type=Path, help="default: the current directory")
    made.add_argument("--final", action="store_true", help="verdict: clean build, more rounds")
    made.add_argument("--baseline", action="store_true", help="profile: time eager and torch.compile alone")
    made.add_argument("--json", action="store_true", help="the last line is the report as JSON")
    made.add_argument("--report", type=Path, help="write the report there")
    made.add_argument("--nonce", default="", help="text to hand back in the report")
    made.add_argument("--socket", type=Path, help="serve: where to listen")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = parser().parse_args(arguments)
    if not environment.is_clean():
        environment.restart(HOME, arguments)
    place = options.session or os.environ.get(environment.SESSION)
    if not place:
        print("[FAIL] no session: give --session or set CUDA_AGENT_JUDGE_SESSION", file=sys.stderr)
        return 2
    try:
        session = load(Path(place))
    except SessionFault as error:
        print(f"[FAIL] {error}", file=sys.stderr)
        return 2
    workspace = (options.workspace or Path.cwd()).resolve()
    return _serve(options, session, workspace) if options.command == "serve" else _judge(options, session, workspace)


def _serve(options: argparse.Namespace, session: Session, workspace: Path) -> int:
    if options.socket is None:
        print("[FAIL] serve needs --socket", file=sys.stderr)
        return 2
    try:
        return serve(HOME, session.path, workspace, options.socket)
    except ServeFault as error:
        print(f"[FAIL] {error}", file=sys.stderr)
        return 2


def _judge(options: argparse.Namespace, session: Session, workspace: Path) -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    report_file = None if options.report is None else options.report.absolute()
    # torch starts programs, a Python with `-c` among them: in a workspace these would import what lies there.
    os.chdir("/")
    os.umask(0o022)  # compilers and submissions, which run under another user, read what is sealed for them
    # torch takes seconds to import: only once the call itself is known to be sound.
    phases = Phases({"python": process_age_s()})
    began = time.monotonic() - process_age_s()
    with phases.stage("torch"):
        from cuda_agent_judge.commands import Request, execute
        from cuda_agent_judge.processes import JudgeFault

    request = Request(
        options.command,
        session,
        workspace,
        options.final,
        options.baseline,
        options.nonce,
        began=began,
        spent=phases.so_far(),
    )
    try:
        report = execute(request)
    except JudgeFault as error:
        print(f"[FAIL] the judge failed: {error}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130
    if report.command != "analyze":
        session.record(report)
    if report_file is not None:
        output.write_report(report_file, report)
    with contextlib.suppress(BrokenPipeError):
        output.show(report, as_json=options.json)
    return output.exit_code(report)


def _leave(number: int, frame: object) -> None:
    raise SystemExit(128 + number)
