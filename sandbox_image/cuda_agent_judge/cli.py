"""The judge's command line: arguments in, a report out."""

import argparse
import os
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from cuda_agent_judge import environment, output
from cuda_agent_judge.asking import ask
from cuda_agent_judge.machine_cache import is_kept
from cuda_agent_judge.phases import Phases, process_age_s
from cuda_agent_judge.report import Report
from cuda_agent_judge.serve import ServeFault, serve
from cuda_agent_judge.session import Session, SessionFault, load

COMMANDS = ("analyze", "compile", "verify", "profile", "verdict", "keep", "serve", "warm")
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
    made.add_argument("--keyed", action="store_true", help="serve: the first line of stdin is the host's key, in hex")
    made.add_argument("--token", default="", help="ask the judge that serves --socket; what shows that the host asks")
    made.add_argument("--control", type=int, help=argparse.SUPPRESS)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = parser().parse_args(arguments)
    if options.token and options.socket and options.report:
        return ask(options.socket, options.command, options.nonce, options.token, options.report)
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
    if options.command == "keep":
        if is_kept(session):
            return 0
        print("[BEGIN] nothing is kept of this operator yet", flush=True)
    commands = {"serve": _serve, "warm": _warm}
    return commands.get(options.command, _judge)(options, session, workspace)


def _serve(options: argparse.Namespace, session: Session, workspace: Path) -> int:
    if options.socket is None:
        print("[FAIL] serve needs --socket", file=sys.stderr)
        return 2
    try:
        key = bytes.fromhex(sys.stdin.readline()) if options.keyed else b""
        shares_uid = session.model_shares_uid
        return serve(HOME, session.path, workspace, options.socket, key=key, shares_uid=shares_uid)
    except ServeFault as error:
        print(f"[FAIL] {error}", file=sys.stderr)
        return 2


def _judge(options: argparse.Namespace, session: Session, workspace: Path) -> int:
    phases = Phases({"python": process_age_s()})
    began = time.monotonic() - process_age_s()
    report_file = None if options.report is None else options.report.absolute()
    environment.settle()
    # torch takes seconds to import: only once the call itself is known to be sound.
    with phases.stage("torch"):
        from cuda_agent_judge import answering
        from cuda_agent_judge.commands import Request

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

    def deliver(report: Report) -> None:
        if report_file is not None:
            output.write_report(report_file, report)

    return answering.answer(request, as_json=options.json, deliver=deliver)


def _warm(options: argparse.Namespace, session: Session, workspace: Path) -> int:
    """Of `serve` alone: the process that its commands are forked from."""
    environment.settle()
    from cuda_agent_judge.warm import serve_warm

    serve_warm(socket.socket(fileno=options.control), session, workspace)
    return 0
