"""The reference worker that stands from one judgement to the next, and whoever keeps it.

No submission is forked from it or speaks to it: the judge of each judgement gets a channel of its own, and the areas
that a submission's process can write to are new in each. Who shares the judge's user can still end or hold it up, and
change how it is scheduled: it is let go then, and after every judgement that did not go well.
"""

import array
import contextlib
import mmap
import os
import select
import signal
import socket
import sys

import torch

from cuda_agent_judge.loops import answer_judge
from cuda_agent_judge.operator import OperatorFault
from cuda_agent_judge.processes import Attached, close_all_but, fork
from cuda_agent_judge.protocol import NONCE_BYTES, Channel, pair
from cuda_agent_judge.reference import Reference
from cuda_agent_judge.session import Session
from cuda_agent_judge.turns import scheduling

_IDLE, _UNSOUND = b"idle", b"unsound"
"""What the worker says when a judgement has ended."""
_ALONE = b"alone"
"""What it is told when nothing is left of the submission."""
_IDLE_LIMIT_S = 2.0
"""How long it may take to be ready again when a judgement has ended."""


class Resident:
    """Keeps one reference worker; lives in the warm parent."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._pid = 0
        self._control: socket.socket | None = None
        self._scheduled = scheduling(os.getpid())
        self._compiling = mmap.mmap(-1, 1)
        """Memory shared with the worker: not 0 while it compiles the baseline."""

    @property
    def pids(self) -> frozenset[int]:
        """The worker, if there is one."""
        return frozenset({self._pid} if self._pid else ())

    @property
    def is_compiling(self) -> bool:
        """Whether it is busy with what takes long and only timing needs."""
        return bool(self._pid) and self._compiling[0] != 0

    def attach(self) -> Attached:
        """Give a judgement a channel to the worker, which is started where none stands."""
        if self._pid and not self.is_sound():
            self.drop()
        if not self._pid:
            self._start()
        nonce = os.urandom(NONCE_BYTES)
        judge, worker = pair(nonce)
        output, output_end = os.pipe()
        assert self._control is not None
        rights = array.array("i", (worker.sock.fileno(), output_end))
        with contextlib.suppress(OSError):  # a worker that is gone shows in the judge's channel
            self._control.sendmsg([nonce], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        worker.close()
        return Attached(judge, self._pid, output, output_end)

    def detach(self, attached: Attached, *, well: bool) -> None:
        """Take the worker back when all processes of the judgement but it are gone."""
        attached.channel.close()
        os.close(attached.output)
        os.close(attached.output_end)
        self._signal(signal.SIGCONT)  # a judge that was killed may have left it stopped
        if not (well and self._said_idle() and self._told_alone()):
            self.drop()

    def drop(self) -> None:
        """End the worker."""
        self._signal(signal.SIGKILL)
        if self._pid:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._pid, 0)
        if self._control is not None:
            self._control.close()
        self._pid, self._control = 0, None

    def work_ahead(self) -> None:
        """Have a worker stand, which then prepares for the next judgement by itself."""
        if not self._pid:
            self._start()

    def _start(self) -> None:
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        session, compiling = self._session, self._compiling
        compiling[0] = 0
        self._pid = fork(lambda: _serve(session, its, compiling))
        its.close()
        self._control = mine

    def is_sound(self) -> bool:
        try:
            if os.waitpid(self._pid, os.WNOHANG)[0] == 0:
                return scheduling(self._pid) <= self._scheduled
        except ChildProcessError:
            pass
        return False

    def _said_idle(self) -> bool:
        assert self._control is not None
        with contextlib.suppress(OSError):
            self._control.settimeout(_IDLE_LIMIT_S)
            return self._control.recv(64) == _IDLE
        return False

    def _told_alone(self) -> bool:
        assert self._control is not None
        with contextlib.suppress(OSError):
            return self._control.send(_ALONE) == len(_ALONE)
        return False

    def _signal(self, number: signal.Signals) -> None:
        if self._pid:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self._pid, number)


def _serve(session: Session, control: socket.socket, compiling: mmap.mmap) -> None:
    """The worker: prepares while nobody asks, then answers one judge after the other."""
    close_all_but(control.fileno())
    reference = Reference(session)
    quiet = os.open(os.devnull, os.O_RDWR)
    busy = True
    while True:
        while busy and not select.select([control], [], [], 0)[0]:
            compiling[0] = int(reference.compiles_next)
            busy = _prepared(reference)
            compiling[0] = 0
        nonce, fds, _, _ = socket.recv_fds(control, NONCE_BYTES, 2)
        if nonce == _ALONE:
            reference.let_go()
            busy = True
            continue
        if len(fds) != 2:
            return
        _say_to(fds[1])
        channel = Channel(socket.socket(fileno=fds[0]), nonce)
        sound = answer_judge(reference, channel)
        channel.close()
        reference.rest()
        _say_to(os.dup(quiet))
        busy = False
        control.send(_IDLE if sound else _UNSOUND)
        if not sound:
            return


def _prepared(reference: Reference) -> bool:
    """Do a piece of work ahead; an operator that fails will say so when a judge asks."""
    try:
        return reference.work_ahead()
    except (OperatorFault, torch.OutOfMemoryError):
        return False


def _say_to(fd: int) -> None:
    """Have what is printed go there."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)
