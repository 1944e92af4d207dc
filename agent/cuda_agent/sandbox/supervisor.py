r"""Run one command and leave nothing of it behind. A program of its own: `python -I -S supervisor.py FD`.

It is not imported by the host. It adopts every orphan among the command's descendants (child subreaper), so that a
child in a session of its own is found and killed too: when the command ends, at its deadline, and when the host closes
the control socket or dies. Standard library only, and few modules of it, because it starts once for every command.

The control socket `FD` carries one request, `<length>\n` and NUL-separated fields (timeout in seconds, cwd, number of
arguments, arguments, KEY=VALUE ...), and one answer: `exit N`, `timeout`, or `errno N cwd|exec`.

In a container it is the library of `sandbox_image/run_command.py`, which talks over the streams of a Docker exec.
"""

import ctypes
import errno
import os
import resource
import select
import signal
import sys
import time

TYPE_CHECKING = False  # as in `typing`, which takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable

PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
TERM_GRACE_S = 2.0
"""What the command itself gets after SIGTERM at the deadline (a shell saves its state), its children being dead."""
KILL_LIMIT_S = 5.0
"""When to stop waiting for processes that cannot be killed (in a driver call, or another user's)."""
REAP_EVERY_S = 0.5


def main() -> None:
    """Serve one request."""
    control = int(sys.argv[1])
    os.set_inheritable(control, False)
    _answer(control, supervise(control, _request(control), become=lambda: None))


class Request:
    """A command: what is in `body`, NUL-separated."""

    def __init__(self, body: bytes) -> None:
        fields = body.split(b"\0")
        last = 3 + int(fields[2])
        self.timeout_s, self.cwd, self.argv = float(fields[0]), fields[1], fields[3:last]
        pairs = (field.partition(b"=") for field in fields[last:])
        self.env = {key: value for key, _, value in pairs}


def supervise(control: int, request: Request, become: "Callable[[], None]") -> bytes:
    """Run the command to its end and return the answer; `become` is called in the child before the program starts."""
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_NAME, b"cuda-agent-exec", 0, 0, 0)  # so that `pkill python3` inside does not end it
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    pid, failure = _start(request, become)
    if failure:
        return failure
    _let_go_of_the_streams()
    status = _wait(pid, control, time.monotonic() + request.timeout_s)
    timed_out = status is None
    if status is None:
        _end_politely(pid)
    kill_below(os.getpid())
    return b"timeout" if timed_out else b"exit %d" % _exit_code(status)


def _request(control: int) -> Request:
    data = b""
    while b"\n" not in data:
        data += _receive(control)
    head, _, body = data.partition(b"\n")
    chunks, missing = [body], int(head) - len(body)
    while missing > 0:
        chunks.append(_receive(control))
        missing -= len(chunks[-1])
    return Request(b"".join(chunks))


def _receive(control: int) -> bytes:
    chunk = os.read(control, 1 << 16)
    if not chunk:
        os._exit(1)  # the host is gone before anything began
    return chunk


def _start(request: Request, become: "Callable[[], None]") -> tuple[int, bytes]:
    """Fork and exec; return the pid, and the answer for a command that could not be started."""
    failed, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        step = b"cwd"
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            become()
            os.chdir(request.cwd)
            step = b"exec"
            _default_signals()
            os.execvpe(request.argv[0], request.argv, request.env)
        except OSError as error:
            os.write(tell, b"errno %d %s" % (error.errno or errno.EIO, step))
        finally:
            os._exit(127)
    os.close(tell)
    failure = os.read(failed, 100)
    os.close(failed)
    if failure:
        os.waitpid(pid, 0)
    return pid, failure


def _default_signals() -> None:
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _let_go_of_the_streams() -> None:
    """Close our copies, or the host would never see the end of the output."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)


def _wait(pid: int, control: int, deadline: float) -> int | None:
    """Wait for the command; None at the deadline or when the host has let go. Orphans are reaped meanwhile."""
    poll = select.poll()
    poll.register(control, select.POLLIN)  # nothing more is sent: readable means closed
    pause_s = REAP_EVERY_S
    try:
        poll.register(os.pidfd_open(pid), select.POLLIN)
    except (OSError, AttributeError):
        pause_s = 0.01  # an old kernel: look again and again
    while True:
        status = _reap(pid)
        if status is not None:
            return status
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return None
        ready = poll.poll(max(1, int(min(left_s, pause_s) * 1000)))
        if any(descriptor == control for descriptor, _ in ready):
            return None


def _reap(main_pid: int) -> int | None:
    """Collect what has ended; return the command's wait status once it is among them."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == main_pid:
            found = status


def _end_politely(pid: int) -> None:
    """Ask the command itself to end and kill its children, so that a shell can save its state.

    A shell that waits for a child acts on the signal as soon as that child is dead, before its next command.
    """
    _signal(pid, signal.SIGTERM)
    for other in _descendants(os.getpid()):
        if other != pid:
            _signal(other, signal.SIGKILL)
    limit = time.monotonic() + TERM_GRACE_S
    while _reap(pid) is None and time.monotonic() < limit:
        time.sleep(0.01)


def kill_below(root: int, spared: int = 0) -> None:
    """Kill all descendants of a process, those that are forking meanwhile included, and reap those that are ours."""
    limit = time.monotonic() + KILL_LIMIT_S
    while time.monotonic() < limit:
        _reap(0)
        if not (_has_children() if root == os.getpid() else set(_descendants(root)) - {spared}):
            return
        stopped: set[int] = set()
        while fresh := set(_descendants(root)) - stopped - {spared}:
            for pid in fresh:
                _signal(pid, signal.SIGSTOP)  # a stopped process cannot fork away
            stopped |= fresh
        for pid in stopped:
            _signal(pid, signal.SIGKILL)
        time.sleep(0.002)


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _descendants(root: int) -> list[int]:
    """Every process below this one, zombies left out."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        if state not in (b"Z", b"X"):
            children.setdefault(int(parent), []).append(int(entry))
    found: list[int] = []
    todo = [root]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        return  # gone already, or not ours to kill


def _exit_code(status: int | None) -> int:
    code = os.waitstatus_to_exitcode(status or 0)
    return code if code >= 0 else 128 - code


def _answer(control: int, text: bytes) -> None:
    try:
        os.write(control, text)
    except OSError:
        return  # the host is gone


if __name__ == "__main__":
    main()
