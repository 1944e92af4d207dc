"""One command in a container: a `docker exec` of `run_command.py`, its streams taken apart, its deadline kept.

The client library's own ways are not used: its demultiplexing is quadratic in the output, and it has no deadline. The
connection is read frame by frame into a bounded capture. That everything a command started is dead is said by
`run_command.py` in a last line of both streams, which carries a nonce that the command never sees.
"""

import secrets
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from cuda_agent.sandbox.command import CHUNK, Capture, Command
from cuda_agent_tools.sandbox import ExecResult

OVERRUN_S = 8.0
"""How long after its deadline a command that does not end is given up."""
COLLECT_S = 8.0
"""How long the killing may take once the command was abandoned."""
TICK_S = 1.0
_HEADER = struct.Struct(">BxxxL")
_STREAMS = {1: "stdout", 2: "stderr"}


class StreamEnded(Exception):
    """The connection ended, or stayed silent for too long, before the command's end was told."""


class Ending:
    """Finds the last line in a stream that comes in pieces, and lets everything before it through."""

    def __init__(self, nonce: str) -> None:
        self._mark = f"\0cuda-agent {nonce} ".encode()
        self._held = b""
        self.answer: str | None = None
        """What stood in the last line, once it is there."""

    def feed(self, data: bytes) -> bytes:
        """Return what is the command's own of the data so far, except what may be the beginning of the last line."""
        data = self._held + data
        start = data.find(self._mark)
        if start < 0:
            held = self._beginning(data)
            self._held = data[len(data) - held :]
            return data[: len(data) - held]
        line, newline, _ = data[start + len(self._mark) :].partition(b"\n")
        self._held = data[start:]
        if newline:
            self.answer, self._held = line.decode(errors="replace"), b""
        return data[:start]

    def _beginning(self, data: bytes) -> int:
        """Return how many bytes at the end could be the mark's first ones."""
        for size in range(min(len(self._mark) - 1, len(data)), 0, -1):
            if data.endswith(self._mark[:size]):
                return size
        return 0


class Execution:
    """One command. `run` may be called once; `abandon` from any thread ends it."""

    def __init__(self, command: Command, uid: int, sink: Callable[[bytes], None] | None = None) -> None:
        """Check the command; where there is a `sink`, it gets stdout and nothing of it is kept.

        Raises:
            ValueError: it cannot be handed to any system.
        """
        command.check()
        self.abandoned = False
        self._command = command
        self._nonce = secrets.token_hex(16)
        self._uid = uid
        self._sink = sink
        self._stream: Any = None
        self._buffer = bytearray()
        self._captures = {"stdout": Capture(command.max_bytes), "stderr": Capture(command.max_bytes)}
        self._endings = {name: Ending(self._nonce) for name in self._captures}

    def abandon(self) -> None:
        """Have everything killed; the thread in `run` returns soon after."""
        self.abandoned = True
        if self._stream is not None:
            _hang_up(self._stream)

    def run(self, stream: Any, on_output: Callable[[bytes], None] | None) -> ExecResult:
        """Run to the end over the connection of a started exec.

        Raises:
            OSError: the command could not be started (`FileNotFoundError`, `NotADirectoryError`, ...).
            StreamEnded: nobody said how the command ended.
        """
        started = time.monotonic()
        self._stream = stream
        try:
            if self.abandoned:
                _hang_up(stream)
            self._send(stream)
            self._pump(stream, on_output, started + self._command.timeout_s + OVERRUN_S)
        except BaseException:
            _hang_up(stream)
            with suppress(StreamEnded, OSError):
                self._pump(stream, None, time.monotonic() + COLLECT_S)
            raise
        return self._result(time.monotonic() - started)

    def lost(self, duration_s: float) -> ExecResult:
        """Return what is known of a command whose end nobody told: it was killed."""
        return self._finish(128 + 9, duration_s >= self._command.timeout_s, duration_s, "")

    def _send(self, stream: Any) -> None:
        body, stdin = self._command.request(), self._command.stdin
        head = f"{self._nonce} {self._uid} {len(body)} {len(stdin)}\n".encode()
        stream.settimeout(None)
        with suppress(BrokenPipeError, ConnectionResetError):  # shows in `_pump`
            stream.sendall(head + body)
            stream.sendall(stdin)

    def _pump(self, stream: Any, on_output: Callable[[bytes], None] | None, limit: float) -> None:
        while any(ending.answer is None for ending in self._endings.values()):
            left_s = limit - time.monotonic()
            if left_s <= 0:
                raise StreamEnded("silent")
            stream.settimeout(min(left_s, TICK_S))
            try:
                data = stream.recv(CHUNK)
            except TimeoutError:
                continue
            except OSError as error:
                raise StreamEnded(str(error)) from error
            if not data:
                raise StreamEnded("closed")
            self._buffer += data
            for name, piece in self._frames():
                self._take(name, piece, on_output)

    def _frames(self) -> list[tuple[str, bytes]]:
        """Take what is whole out of the buffer; of a long frame, what is there of it."""
        found, position = [], 0
        while len(self._buffer) - position >= _HEADER.size:
            kind, size = _HEADER.unpack_from(self._buffer, position)
            start = position + _HEADER.size
            if len(self._buffer) < start + size:
                break
            found.append((_STREAMS.get(kind, "stderr"), bytes(self._buffer[start : start + size])))
            position = start + size
        del self._buffer[:position]
        return found

    def _take(self, name: str, piece: bytes, on_output: Callable[[bytes], None] | None) -> None:
        data = self._endings[name].feed(piece)
        if not data:
            return
        if name == "stdout" and self._sink is not None:
            self._sink(data)
            return
        self._captures[name].add(data)
        if on_output is not None:
            on_output(data)

    def _result(self, duration_s: float) -> ExecResult:
        answer, *met = (self._endings["stderr"].answer or "").split(";")
        word, *rest = answer.split()
        if word == "errno":
            self._command.raise_not_started(int(rest[0]), rest[1])
        timed_out = word == "timeout"
        code = 0 if timed_out else int(rest[0])
        return self._finish(code, timed_out, duration_s, _notes(met) if timed_out or code else "")

    def _finish(self, code: int, timed_out: bool, duration_s: float, notes: str) -> ExecResult:
        (stdout, stdout_dropped), (stderr, stderr_dropped) = (capture.finish() for capture in self._captures.values())
        if notes:
            stderr = b"".join([stderr, b"" if not stderr or stderr.endswith(b"\n") else b"\n", notes.encode()])
        return ExecResult(
            None if timed_out else code, stdout, stderr, duration_s, timed_out, stdout_dropped, stderr_dropped
        )


def _notes(met: list[str]) -> str:
    """Sentences on the limits of the container that a failed command met."""
    lines = []
    for one in met:
        word, _, path = one.partition(" ")
        match word:
            case "oom":
                lines.append("a process was killed because the sandbox's memory is used up (files count as memory)")
            case "pids":
                lines.append("the sandbox's limit of processes was reached: start fewer at once")
            case "full":
                lines.append(f"{path} is full: remove files there")
    return "".join(f"sandbox: {line}\n" for line in lines)


def _hang_up(stream: Any) -> None:
    with suppress(OSError, AttributeError):
        stream.shutdown(socket.SHUT_WR)
