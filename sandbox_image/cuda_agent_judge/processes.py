"""The warm parent: imports torch, forks the three roles and nothing else, and sees that none of their processes stays.

It makes no CUDA call and enters no OpenMP region: a child of a process that did either hangs or fails. It is the
subreaper of everything below it, so that even a process that left its session is found and killed.
"""

import contextlib
import ctypes
import os
import select
import selectors
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuda_agent_judge.protocol import MAX_ANSWER, NONCE_BYTES, Channel, Kind, PeerLost, ProtocolFault, pair

OUTPUT_LIMIT = 64 << 10
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36
_libc = ctypes.CDLL(None, use_errno=True)


class JudgeFault(Exception):
    """The judge itself failed; never a verdict on a submission."""


@dataclass(frozen=True)
class Roles:
    """What each child runs; every one gets its own channels only."""

    judge: Callable[["JudgeEnds"], dict[str, Any]]
    reference: "Callable[[Channel], None] | Attached"
    candidate: Callable[[Channel], None]


@dataclass(frozen=True)
class Attached:
    """A reference worker that stands already, forked by the same warm parent."""

    channel: Channel
    """The judge's end."""
    pid: int
    output: int
    """Where what it prints is read."""
    output_end: int
    """The other end, for the other roles."""


@dataclass(frozen=True)
class JudgeEnds:
    """The judge's ends of the channels."""

    reference: Channel
    candidate: Channel
    parent: Channel
    """Tells how a worker ended."""
    pids: dict[str, int]


def become_subreaper() -> None:
    """Inherit every orphan below this process."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def run_roles(roles: Roles, deadline_s: float) -> dict[str, Any]:
    """Fork the roles, wait for the judge's answer, kill whatever is left.

    Raises:
        JudgeFault: the judge ended without an answer or did not end in time.
    """
    become_subreaper()
    check_untouched()
    # The children inherit it: only the candidate worker's memory may be read by others of the same user.
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    family = _Family(roles.reference if isinstance(roles.reference, Attached) else None)
    try:
        family.start(roles)
        return family.attend(time.monotonic() + deadline_s)
    finally:
        kill_descendants()


def check_untouched() -> None:
    """Refuse to fork from a process that has threads or has touched CUDA.

    Raises:
        JudgeFault: it has.
    """
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        raise JudgeFault(f"the judge's parent has {threads} threads and cannot fork safely")
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        raise JudgeFault("the judge's parent has initialised CUDA and cannot fork safely")


class _Family:
    def __init__(self, attached: Attached | None) -> None:
        self._names: dict[int, str] = {}
        self._shown = 0
        nonces = [os.urandom(NONCE_BYTES) for _ in range(3)]
        own = pair(nonces[0])
        self._reference = own if attached is None else (attached.channel, own[1])
        self._candidate = pair(nonces[1], max_answer=MAX_ANSWER)
        self._control = pair(nonces[2])
        self._output_read, self._output_write = (attached.output, attached.output_end) if attached else os.pipe()

    def start(self, roles: Roles) -> None:
        pids: dict[str, int] = {}
        reference = roles.reference
        if isinstance(reference, Attached):
            pids["reference"] = reference.pid
        else:
            serve = reference
            pids["reference"] = self._fork("reference", lambda: self._worker(self._reference[1], serve, True))
        pids["candidate"] = self._fork("candidate", lambda: self._worker(self._candidate[1], roles.candidate, False))
        ends = JudgeEnds(self._reference[0], self._candidate[0], self._control[0], pids)
        self._fork("judge", lambda: self._judge(ends, roles.judge))
        for channel in (*self._reference, *self._candidate, self._control[0]):
            channel.close()
        os.close(self._output_write)

    def _fork(self, name: str, main: Callable[[], None]) -> int:
        pid = fork(main)
        self._names[pid] = name
        return pid

    def _worker(self, channel: Channel, main: Callable[[Channel], None], secret: bool) -> None:
        nothing = os.open(os.devnull, os.O_RDONLY)
        for fd, target in ((nothing, 0), (self._output_write, 1), (self._output_write, 2)):
            os.dup2(fd, target)
        close_all_but(channel.sock.fileno())
        _libc.prctl(_PR_SET_DUMPABLE, 0 if secret else 1, 0, 0, 0)
        # New streams: the old ones remember whether what stood behind them could seek.
        sys.stdout = open(1, "w", buffering=1, errors="replace", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", buffering=1, errors="replace", closefd=False)  # noqa: SIM115
        main(channel)

    def _judge(self, ends: JudgeEnds, main: Callable[[JudgeEnds], dict[str, Any]]) -> None:
        _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        for channel in (self._reference[1], self._candidate[1], self._control[1]):
            channel.close()
        os.close(self._output_write)
        os.close(self._output_read)
        ends.parent.send(Kind.ANSWER, main(ends))

    def attend(self, deadline: float) -> dict[str, Any]:
        """Pass on output and deaths until the judge has answered."""
        control = self._control[1]
        with selectors.DefaultSelector() as selector:
            selector.register(self._output_read, selectors.EVENT_READ, "output")
            selector.register(control.sock, selectors.EVENT_READ, "control")
            while True:
                if time.monotonic() > deadline:
                    raise JudgeFault("the judge did not end in time; this is a fault of the judge")
                for key, _ in selector.select(0.05):
                    if key.data == "output":
                        self._pass_output(selector)
                        continue
                    try:
                        answer = control.receive(60.0).body
                        while self._has_output(selector):
                            self._pass_output(selector)
                        return answer
                    except (PeerLost, ProtocolFault) as error:
                        raise JudgeFault("the judge ended without an answer; its error is on stderr") from error
                self._report_deaths(control)

    def _has_output(self, selector: selectors.BaseSelector) -> bool:
        """Whether something is left that would be shown."""
        open_still = self._shown < OUTPUT_LIMIT and self._output_read in selector.get_map()
        return open_still and bool(select.select([self._output_read], [], [], 0)[0])

    def _pass_output(self, selector: selectors.BaseSelector) -> None:
        data = os.read(self._output_read, 1 << 16)
        if not data:
            selector.unregister(self._output_read)
        kept = data[: max(0, OUTPUT_LIMIT - self._shown)]
        self._shown += len(kept)
        with contextlib.suppress(OSError):
            while kept:
                kept = kept[os.write(2, kept) :]

    def _report_deaths(self, control: Channel) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            name = self._names.pop(pid, "")
            if name in ("reference", "candidate"):
                with contextlib.suppress(PeerLost):
                    control.send(Kind.FAULT, {"role": name, "how": how_ended(status)})


def fork(main: Callable[[], None]) -> int:
    """Fork a process of its own session that ends with this one; returns its id."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        main()
        status = 0
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException as error:
        with contextlib.suppress(Exception):
            sys.excepthook(type(error), error, error.__traceback__)
    finally:
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        os._exit(status)


def close_all_but(kept: int) -> None:
    """Close every descriptor above the standard ones but this."""
    os.closerange(3, kept)
    os.closerange(kept + 1, _highest_fd() + 1)


def how_ended(status: int) -> str:
    """Say how a process ended, from its wait status."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            return f"was killed by {signal.Signals(number).name}"
        except ValueError:
            return f"was killed by signal {number}"
    return f"left with exit code {os.waitstatus_to_exitcode(status)}"


def is_running(pid: int) -> bool:
    """Whether a process is there and has not ended yet; one that nobody has waited for holds nothing any more."""
    return state_of(pid) not in (b"", b"Z", b"X")


def state_of(pid: int) -> bytes:
    """The letter by which the kernel says what a process does (R, S, T, Z, ...); none where there is no process."""
    try:
        return Path("/proc", str(pid), "stat").read_bytes().rpartition(b")")[2].split()[0]
    except (OSError, IndexError):
        return b""


def kill_descendants(limit_s: float = 10.0, spared: frozenset[int] = frozenset()) -> None:
    """Kill every process below this one but `spared`, those in sessions of their own included, and reap them."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        found = descendants(os.getpid(), spared)
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if spared and not found:
            return
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)


def descendants(root: int, spared: frozenset[int] = frozenset()) -> list[int]:
    """All processes whose line of parents leads to `root` and through none of `spared`."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                stat = Path("/proc", entry, "stat").read_bytes()
                parents[int(entry)] = int(stat.rpartition(b")")[2].split()[1])
    mine = {root}
    found: list[int] = []
    grown = True
    while grown:
        new = [pid for pid, parent in parents.items() if parent in mine and pid not in mine and pid not in spared]
        mine.update(new)
        found += new
        grown = bool(new)
    return found


def _highest_fd() -> int:
    return max((int(name) for name in os.listdir("/proc/self/fd")), default=2)
