"""The warm parent of a served judge: has imported torch, and forks a process for each command that comes.

It makes no CUDA call and enters no OpenMP region, no more than the parent of a judgement does. It takes orders on a
socket that it inherits, one at a time: the command with the descriptors of both output streams and of the report. It
answers with the exit code when nothing of the command is left.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cuda_agent_judge import environment
from cuda_agent_judge.answering import answer
from cuda_agent_judge.commands import Request
from cuda_agent_judge.process_tree import kill_descendants
from cuda_agent_judge.processes import Attached, become_subreaper, check_untouched, fork
from cuda_agent_judge.report import Report
from cuda_agent_judge.resident import Resident
from cuda_agent_judge.session import Session
from cuda_agent_judge.toolchain import ToolchainFault, find_toolchain

MAX_ORDER = 4096
ORDER_FDS = 3
READY = b"ready"
_JUDGE_FAILED = 3
_ENDING_S = 10.0
"""What a command gets to end by itself when it is told to."""
_PR_SET_DUMPABLE = 4


def serve_warm(control: socket.socket, session: Session, workspace: Path) -> None:
    """Carry out orders until the other end is closed."""
    become_subreaper()
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    check_untouched()
    resident = Resident(session)
    control.send(READY)
    with contextlib.suppress(ToolchainFault):  # whoever builds will say it
        find_toolchain(session.target, "stable")  # what it finds out is known to all that is forked
    try:
        while True:
            order, fds, _, _ = socket.recv_fds(control, MAX_ORDER, ORDER_FDS)
            if not order:
                return
            if len(fds) != ORDER_FDS:  # told to stop what has ended already
                continue
            code = _carry_out(json.loads(order), fds, _Place(control, session, workspace, resident))
            control.send(b"%d" % code)
            resident.work_ahead()
    finally:
        kill_descendants()


class _Place:
    """What all orders have in common."""

    def __init__(self, control: socket.socket, session: Session, workspace: Path, resident: Resident) -> None:
        self.control = control
        self.session = session
        self.workspace = workspace
        self.resident = resident


def _carry_out(order: dict[str, Any], fds: list[int], place: _Place) -> int:
    """Fork a process for the command, and see that nothing of it is left."""
    command = order["command"]
    # What is not timed need not wait until the baseline is compiled: it gets a reference worker of its own.
    alone = command == "compile" or (command in ("analyze", "verify") and place.resident.is_compiling)
    attached = None if alone else place.resident.attach()
    request = Request(
        command,
        place.session,
        place.workspace,
        baseline="--baseline" in order["arguments"],
        nonce=order["nonce"],
        began=order["began"],
    )
    as_json = "--json" in order["arguments"]
    try:
        code = _forked(lambda: _command(request, fds, attached, as_json=as_json), place)
        if attached is not None:
            lost = not place.resident.is_sound()
            place.resident.detach(attached, well=code in (0, 1))
            if code == _JUDGE_FAILED and lost:  # the worker was ended behind our back
                code = _forked(lambda: _command(request, fds, None, as_json=as_json), place)
        return code
    finally:
        for fd in fds:
            os.close(fd)


def _forked(command: Callable[[], None], place: _Place) -> int:
    """Run it in a process of its own to the end; returns its exit code, or the signal that ended it as a negative."""
    status = _wait(fork(command), place.control)
    kill_descendants(spared=place.resident.pids)
    return os.waitstatus_to_exitcode(status)


def _command(request: Request, fds: list[int], attached: Attached | None, *, as_json: bool) -> None:
    for fd, target in zip(fds[:2], (1, 2), strict=True):
        os.dup2(fd, target)
    sys.stdout = open(1, "w", buffering=1, errors="replace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="replace", closefd=False)  # noqa: SIM115
    environment.settle()

    def deliver(report: Report) -> None:
        with open(fds[2], "w", closefd=False) as stream:
            stream.write(report.to_json())

    code = answer(request, as_json=as_json, deliver=deliver, attached=attached)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _wait(pid: int, control: socket.socket) -> int:
    """Wait for a command to end; one that is no longer wanted is told to."""
    poll = select.poll()
    poll.register(control, select.POLLIN)  # while a command runs, only that it is to stop is said
    own = -1
    with contextlib.suppress(OSError, AttributeError):
        own = os.pidfd_open(pid)
        poll.register(own, select.POLLIN)
    limit: float | None = None
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            if own >= 0:
                os.close(own)
            return status
        ready = {fd for fd, _ in poll.poll(50)}
        if limit is None and control.fileno() in ready:
            control.recv(MAX_ORDER)
            poll.unregister(control)
            os.kill(pid, signal.SIGTERM)
            limit = time.monotonic() + _ENDING_S
        if limit is not None and time.monotonic() > limit:
            os.kill(pid, signal.SIGKILL)
