"""The host's side of one supervised command: start `supervisor.py`, move bytes, keep a bounded part of the output."""

import os
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from cuda_agent.sandbox.command import CHUNK, Capture, Command
from cuda_agent.sandbox.spawning import out_of_reach
from cuda_agent_tools.sandbox import ExecResult, SandboxError

SUPERVISOR = Path(__file__).with_name("supervisor.py")
LAUNCHER = (sys.executable, "-I", "-S")
"""What runs the supervisor where nothing confines it."""
MARKER = "CUDA_AGENT_EXEC"
"""A variable by which the processes of one command are found should its supervisor be killed."""
OVERRUN_S = 8.0
"""How long after the deadline a supervisor that does not answer is given up."""
COLLECT_S = 8.0
"""How long a supervisor may take to kill what is left, its own limit and some."""


class Supervised:
    """One command under its supervisor. `run` may be called once; `abandon` from any thread ends it."""

    def __init__(
        self,
        command: Command,
        *,
        launcher: Sequence[str] = LAUNCHER,
        passed: Sequence[int] = (),
        overrun_s: float = OVERRUN_S,
    ) -> None:
        """Check the command; `launcher` are the words before the supervisor's own, an interpreter's at least.

        `passed` are descriptors that the launcher needs.

        Raises:
            ValueError: it cannot be handed to any system.
        """
        command.check()
        self.abandoned = False
        self._command = command
        self._launcher = launcher
        self._passed = passed
        self._overrun_s = overrun_s
        self._marker = f"{MARKER}={secrets.token_hex(8)}"
        self._control: socket.socket | None = None
        self._captures = {"stdout": Capture(command.max_bytes), "stderr": Capture(command.max_bytes)}

    def abandon(self) -> None:
        """Have the supervisor kill everything; the thread in `run` returns soon after."""
        self.abandoned = True
        if self._control is not None:
            _hang_up(self._control)

    def run(self, on_output: Callable[[bytes], None] | None) -> ExecResult:
        """Run to the end.

        Raises:
            OSError: the command could not be started (`FileNotFoundError`, `NotADirectoryError`, ...).
            SandboxError: the supervisor itself could not be started.
        """
        started = time.monotonic()
        limit = started + self._command.timeout_s + self._overrun_s
        process: subprocess.Popen[bytes] | None = None
        answer = b""
        control, theirs = socket.socketpair()
        with control, theirs:
            try:
                with out_of_reach():
                    process = self._spawn(theirs)
                theirs.close()
                self._control = control
                if self.abandoned:
                    _hang_up(control)
                self._send_request(control)
                answer = self._pump(control, process, on_output, limit)
            finally:
                _hang_up(control)
                if process is not None:
                    self._collect(process, answer, COLLECT_S if time.monotonic() < limit else 0.5)
        return self._result(answer, process.returncode, time.monotonic() - started)

    def _spawn(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                [*self._launcher, str(SUPERVISOR), str(theirs.fileno())],
                stdin=subprocess.PIPE if self._command.stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={},  # the command may read its parent's environment
                cwd="/",
                pass_fds=[theirs.fileno(), *self._passed],
                start_new_session=True,  # Ctrl-C is for the host, which then ends this one
                bufsize=0,
            )
        except OSError as error:
            raise SandboxError(f"this machine starts no more processes ({error}); end some and try again") from error

    def _send_request(self, control: socket.socket) -> None:
        body = self._command.request(self._marker)
        with suppress(BrokenPipeError, ConnectionResetError):  # a dead supervisor shows in `_pump`
            control.sendall(b"%d\n" % len(body) + body)

    def _pump(
        self,
        control: socket.socket,
        process: subprocess.Popen[bytes],
        on_output: Callable[[bytes], None] | None,
        limit: float,
    ) -> bytes:
        """Move bytes until the supervisor has answered and the output is at its end; return the answer."""
        answer: bytes | None = None
        with selectors.DefaultSelector() as selector:
            selector.register(control, selectors.EVENT_READ, "control")
            for name, stream in (("stdout", process.stdout), ("stderr", process.stderr)):
                assert stream is not None
                selector.register(stream, selectors.EVENT_READ, name)
            if process.stdin is not None:
                os.set_blocking(process.stdin.fileno(), False)
                selector.register(process.stdin, selectors.EVENT_WRITE, memoryview(self._command.stdin))
            while self._wanted(selector, answer) and time.monotonic() < limit:
                # After the answer every writer is dead: what cannot be read at once will never come.
                events = selector.select(0.2 if answer is not None else max(0.0, limit - time.monotonic()))
                if answer == b"" or (answer is not None and not events):
                    break
                for key, _ in events:
                    if key.data == "control":
                        selector.unregister(control)
                        answer = control.recv(100)
                    elif isinstance(key.data, str):
                        self._take(selector, key, on_output)
                    else:
                        self._feed(selector, key, process.stdin)
        return answer or b""

    @staticmethod
    def _wanted(selector: selectors.BaseSelector, answer: bytes | None) -> bool:
        return answer is None or any(key.data in ("stdout", "stderr") for key in selector.get_map().values())

    def _take(
        self, selector: selectors.BaseSelector, key: selectors.SelectorKey, on_output: Callable[[bytes], None] | None
    ) -> None:
        data = os.read(key.fd, CHUNK)
        if not data:
            selector.unregister(key.fileobj)
            return
        self._captures[key.data].add(data)
        if on_output is not None:
            on_output(data)

    @staticmethod
    def _feed(selector: selectors.BaseSelector, key: selectors.SelectorKey, stream: IO[bytes] | None) -> None:
        left: memoryview = key.data
        try:
            left = left[os.write(key.fd, left[:CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:  # the command does not want more
            left = left[:0]
        if left:
            selector.modify(key.fileobj, selectors.EVENT_WRITE, left)
        else:
            selector.unregister(key.fileobj)
            _close(stream)

    def _collect(self, process: subprocess.Popen[bytes], answer: bytes, patience_s: float) -> None:
        """Wait for the supervisor; where it was killed or hangs, do its work."""
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.returncode != 0 or not answer:
            _kill_marked(self._marker)
        for stream in (process.stdin, process.stdout, process.stderr):
            _close(stream)

    def _result(self, answer: bytes, returncode: int, duration_s: float) -> ExecResult:
        word, *rest = answer.decode().split() or ["lost"]
        # Above 128: it was killed, and a process around it says so.
        if word == "lost" and 0 < returncode < 128 and not self.abandoned:
            trace = self._captures["stderr"].finish()[0].decode(errors="replace").strip()
            raise SandboxError(f"the sandbox's supervisor failed, please report this: {trace[-300:]}")
        if word == "errno":
            self._command.raise_not_started(int(rest[0]), rest[1])
        (stdout, stdout_dropped), (stderr, stderr_dropped) = (capture.finish() for capture in self._captures.values())
        timed_out = word == "timeout" or (word == "lost" and duration_s >= self._command.timeout_s)
        code = int(rest[0]) if word == "exit" else 128 + signal.SIGKILL
        return ExecResult(
            None if timed_out else code, stdout, stderr, duration_s, timed_out, stdout_dropped, stderr_dropped
        )


def _hang_up(control: socket.socket) -> None:
    with suppress(OSError):
        control.shutdown(socket.SHUT_WR)


def _close(stream: IO[bytes] | None) -> None:
    if stream is not None:
        with suppress(OSError):
            stream.close()


def _kill_marked(marker: str) -> None:
    """Kill the processes that carry the marker in their environment, until there are none."""
    wanted = marker.encode()
    for _ in range(50):
        found = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _carries(pid, wanted)]
        if not found:
            return
        for pid in found:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _carries(pid: int, marker: bytes) -> bool:
    try:
        return marker in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
