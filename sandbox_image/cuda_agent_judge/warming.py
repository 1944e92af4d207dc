"""The warm parent as the server sees it: started at once, given orders, left for a cold start when it is gone.

Standard library only: the server imports no torch.
"""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import time
from dataclasses import dataclass

from cuda_agent_judge.client import Asked

_READY_LIMIT_S = 120.0
_ENDING_S = 15.0
"""What the warm parent gets to end a command that nobody wants any more."""
_STARTS = 6
"""It is started anew when it ends (who shares the judge's user may end it), but not for ever."""
_MAX_ANSWER = 64


class WarmGone(Exception):
    """There is no warm parent, or it ended before the command did."""


@dataclass(frozen=True)
class Streams:
    """Descriptors that a command writes to."""

    stdout: int
    stderr: int
    report: int

    def close(self) -> None:
        """Close them here."""
        for fd in (self.stdout, self.stderr, self.report):
            os.close(fd)


class Warming:
    """Starts the warm parent and hands commands to it, one at a time."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._starts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._ready = False

    @property
    def pids(self) -> frozenset[int]:
        """Of the warm parent, if it stands."""
        return frozenset({self._process.pid} if self._process else ())

    def start(self) -> None:
        """Start it unless it stands, or has ended too often."""
        if self._process is not None or self._starts == _STARTS:
            return
        self._starts += 1
        self._ready = False
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)
        with theirs:
            self._process = subprocess.Popen(
                [*self._command, "--control", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                cwd="/",
                start_new_session=True,
            )

    async def run(self, asked: Asked, streams: Streams) -> int:
        """Have a command carried out; returns its exit code when nothing of it is left.

        Raises:
            WarmGone: start it in another way.
        """
        self.start()
        try:
            await self._until_ready()
            order = {
                "command": asked.command,
                "arguments": asked.arguments,
                "nonce": asked.nonce,
                "began": time.monotonic(),
            }
            self._send(json.dumps(order).encode(), streams)
        finally:
            streams.close()
        try:
            return int(await self._hear(None))
        except asyncio.CancelledError:
            await asyncio.shield(self._stop())
            raise

    def end(self) -> None:
        """End it and all below it."""
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = self._control = None

    async def _until_ready(self) -> None:
        if not self._ready:
            await self._hear(_READY_LIMIT_S)
            self._ready = True

    def _send(self, order: bytes, streams: Streams) -> None:
        if self._control is None:
            raise WarmGone
        try:
            socket.send_fds(self._control, [order], [streams.stdout, streams.stderr, streams.report])
        except OSError as error:
            self.end()
            raise WarmGone from error

    async def _hear(self, limit_s: float | None) -> bytes:
        if self._control is None:
            raise WarmGone
        said = b""
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(limit_s):
                said = await asyncio.get_running_loop().sock_recv(self._control, _MAX_ANSWER)
        if not said:
            self.end()
            raise WarmGone
        return said

    async def _stop(self) -> None:
        if self._control is None:
            return
        with contextlib.suppress(OSError, WarmGone):
            self._control.send(b"stop")
            await self._hear(_ENDING_S)
