"""The judge behind a socket: for a model that runs under another uid than the judge and must not start it itself.

Anybody of this machine may ask, and decides nothing but which of four commands runs with which flags: session and
workspace are the server's. The host, which shows a token, may ask for more (asking.py). One command runs at a time, as
a child of a process that has torch imported already, or of its own where there is none. When its client goes, all its
processes are killed.
"""

import asyncio
import contextlib
import ctypes
import hmac
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import IO, Any

from cuda_agent_judge.asking import HOST_COMMANDS, UNAVAILABLE, seal, token
from cuda_agent_judge.client import MAX_REQUEST, Asked, Client, Refusal
from cuda_agent_judge.frames import EXIT, REPORT, STDERR, STDOUT
from cuda_agent_judge.isolation import UNPRIVILEGED
from cuda_agent_judge.process_tree import kill_descendants
from cuda_agent_judge.processes import become_subreaper
from cuda_agent_judge.warming import Streams, WarmGone, Warming

MAX_CLIENTS = 32
ENDING_S = 10.0
"""What a command gets to end by itself when it is told to."""
_CHUNK = 1 << 15
_PR_SET_DUMPABLE = 4
_WAITING = b"waiting for another judge command to end\n"


class ServeFault(Exception):
    """The server cannot start; the message says what to change."""


def serve(
    home: Path, session: Path, workspace: Path, place: Path, *, key: bytes = b"", shares_uid: bool = False
) -> int:
    """Serve until SIGTERM, SIGINT or SIGHUP; says on stdout when clients may come.

    With a `key` the host may ask too. With `shares_uid` a model's commands run under this process's user.

    Raises:
        ServeFault: it cannot start.
    """
    if not shares_uid:
        _check_owner(workspace)
    become_subreaper()
    listening = _listen(place, 0o600 if shares_uid else 0o666)
    command = [sys.executable, "-I", "-B", str(home)]
    server = Server(command, ["--session", str(session), "--workspace", str(workspace)], key)
    _unreadable()
    try:
        asyncio.run(_until_told(server, listening, place))
    finally:
        server.end()
        kill_descendants()
        with contextlib.suppress(OSError):
            place.unlink()
    return 0


def _unreadable() -> None:
    """See that nobody of the same user reads the key in this process's memory."""
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _check_owner(workspace: Path) -> None:
    """A root server reads with the rights of the workspace's owner: it must have another one, who cannot swap it."""
    try:
        about, above = os.lstat(workspace), os.stat(workspace.parent)
    except OSError as error:
        raise ServeFault(f"the workspace {str(workspace)!r} cannot be used: {error.strerror}") from error
    if not stat.S_ISDIR(about.st_mode):
        raise ServeFault(f"the workspace {str(workspace)!r} is no folder")
    if os.geteuid() != 0:
        return
    if about.st_uid == 0:
        raise ServeFault(f"the workspace {str(workspace)!r} is root's: give it to the user that the model runs as")
    if above.st_uid != 0 or above.st_mode & 0o022:
        raise ServeFault(f"the workspace lies in {str(workspace.parent)!r}, where others than root may replace it")


def _listen(place: Path, mode: int) -> socket.socket:
    """Bind, in the place of a socket that nobody listens on any more.

    Raises:
        ServeFault: the place is taken or cannot be bound.
    """
    try:
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISSOCK(os.lstat(place).st_mode):
                raise ServeFault(f"{str(place)!r} is there and no socket: name another")
            with socket.socket(socket.AF_UNIX) as probe:
                try:
                    probe.connect(str(place))
                except ConnectionRefusedError:
                    place.unlink()
                else:
                    raise ServeFault(f"another judge serves {str(place)!r}")
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(place))
        os.chmod(place, mode)
    except OSError as error:
        raise ServeFault(f"{str(place)!r} cannot be bound: {error.strerror or error}") from error
    return listening


async def _until_told(server: "Server", listening: socket.socket, place: Path) -> None:
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, told.set)
    started = await asyncio.start_unix_server(server.attend, sock=listening, limit=MAX_REQUEST)
    server.warm()
    print(f"serving {place}", flush=True)
    await told.wait()
    started.close()
    # Returning cancels what attends to clients, and that kills what runs for them.


class Server:
    """Attends to clients; `command` starts the judge, `fixed` is what no client may choose."""

    def __init__(self, command: list[str], fixed: list[str], key: bytes = b"") -> None:
        self._key = key
        self._warming = Warming([*command, "warm", *fixed])
        self._command = command
        self._fixed = fixed
        self._turn = asyncio.Lock()
        self._clients = 0

    def warm(self) -> None:
        """Start what makes the first command quick."""
        self._warming.start()

    def end(self) -> None:
        """End it."""
        self._warming.end()

    async def attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client to its end, which is also the end of what it asked for."""
        client = Client(reader, writer)
        self._clients += 1
        try:
            if self._clients > MAX_CLIENTS:
                raise Refusal(f"{MAX_CLIENTS} judge commands are waiting already: run one at a time")
            if os.geteuid() == 0 and client.uid == UNPRIVILEGED:
                raise Refusal("a submission that is being judged cannot ask the judge")
            asked = await client.request()
            self._check_token(asked)
            await self._grant(client, asked)
        except Refusal as refusal:
            with contextlib.suppress(OSError, TimeoutError):
                await client.refuse(str(refusal), 2)
        except (OSError, TimeoutError, asyncio.CancelledError):
            pass  # the client is gone, or the server is to end; what ran for it has been ended
        finally:
            self._clients -= 1
            client.close()

    def _check_token(self, asked: Asked) -> None:
        if not asked.token:
            return
        if asked.command not in HOST_COMMANDS or not self._key:
            raise Refusal("this is not to be asked for here")
        if not hmac.compare_digest(asked.token.encode(), token(self._key, asked.command, asked.nonce).encode()):
            raise Refusal("the token is not the host's")

    async def _grant(self, client: Client, asked: Asked) -> None:
        work = asyncio.ensure_future(self._in_turn(client, asked))
        gone = asyncio.ensure_future(client.gone())
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            if not work.done():
                work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await work

    async def _in_turn(self, client: Client, asked: Asked) -> None:
        if self._turn.locked():
            await client.send(STDERR, _WAITING)
        async with self._turn:
            try:
                code = await self._run_warm(client, asked)
            except WarmGone:
                kill_descendants()
                code = UNAVAILABLE if asked.token else await self._run_cold(client, asked)
        await client.send(EXIT, b"%d" % code)

    async def _run_warm(self, client: Client, asked: Asked) -> int:
        """Have it carried out by a child of the warm parent.

        Raises:
            WarmGone: there is none.
        """
        (out, out_end), (err, err_end), (report, report_end) = (os.pipe() for _ in range(3))
        work = asyncio.ensure_future(self._warming.run(asked, Streams(out_end, err_end, report_end)))
        taken = bytearray()
        streams = [
            _relay(os.fdopen(out, "rb"), client, STDOUT),
            _relay(os.fdopen(err, "rb"), client, STDERR),
            _take(os.fdopen(report, "rb"), taken),
        ]
        try:
            await _both(*streams)
            code = await work
        finally:
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError, WarmGone):
                await work
        if asked.token and taken:
            await client.send(REPORT, seal(self._key, bytes(taken)).encode() + b"\n" + taken)
        return code if code >= 0 else 128 - code

    async def _run_cold(self, client: Client, asked: Asked) -> int:
        process = subprocess.Popen(
            [*self._command, asked.command, *self._fixed, *asked.arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            start_new_session=True,
        )
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            await _both(_relay(process.stdout, client, STDOUT), _relay(process.stderr, client, STDERR))
            await _ended(process, ENDING_S)
        finally:
            await _end(process, self._warming.pids)
        return process.returncode if process.returncode >= 0 else 128 - process.returncode


async def _both(*work: Coroutine[Any, Any, None]) -> None:
    """Wait for all; the first that fails ends the others."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _relay(stream: IO[bytes], client: Client, tag: int) -> None:
    """Pass a stream on to its end."""
    reader = asyncio.StreamReader(limit=_CHUNK)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), stream
    )
    try:
        while data := await reader.read(_CHUNK):
            await client.send(tag, data)
    finally:
        transport.close()


async def _take(stream: IO[bytes], into: bytearray) -> None:
    """Take a stream to its end."""
    reader = asyncio.StreamReader(limit=_CHUNK)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), stream
    )
    try:
        while data := await reader.read(_CHUNK):
            into += data
    finally:
        transport.close()


async def _end(process: subprocess.Popen[bytes], spared: frozenset[int]) -> None:
    """See that nothing of a command is left."""
    if process.poll() is None:
        process.terminate()
        if not await _ended(process, ENDING_S):
            process.kill()
            process.wait()
    kill_descendants(spared=spared)


async def _ended(process: subprocess.Popen[bytes], limit_s: float) -> bool:
    """Wait for a process that is about to end."""
    end = asyncio.get_running_loop().time() + limit_s
    while process.poll() is None and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(0.01)
    return process.poll() is not None
