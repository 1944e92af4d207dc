"""Hands a command over to the judge; its exit code is the command's."""

import contextlib
import json
import os
import socket
import struct
import sys
from pathlib import Path
from typing import NoReturn

HOME = "CUDA_AGENT_JUDGE_HOME"
SESSION = "CUDA_AGENT_JUDGE_SESSION"
SOCKET = "CUDA_AGENT_JUDGE_SOCKET"
"""Where the judge listens; where it does not and runs as the same user, it is started here."""
_FRAME = struct.Struct("!BI")
_EXIT = 3
"""The tag of the last frame; those of the streams are their descriptors."""


def ask(command: str, arguments: list[str]) -> NoReturn:
    """Have the judge carry out a command; does not return."""
    if place := os.environ.get(SOCKET):
        _over(place, command, arguments)
    for name in (HOME, SESSION):
        if not os.environ.get(name):
            _fail(f"${name} is not set: run this inside the sandbox of a run, not on its own", 2)
    workspace = Path(__file__).resolve().parent.parent
    judge = [sys.executable, "-I", os.environ[HOME], command, "--workspace", str(workspace), *arguments]
    try:
        os.execv(sys.executable, judge)
    except OSError as error:
        _fail(f"the judge cannot be started: {error.strerror}", 3)


def _over(place: str, command: str, arguments: list[str]) -> None:
    """Ask the judge that listens; returns only where there is none."""
    request = json.dumps({"command": command, "arguments": arguments}).encode()
    with socket.socket(socket.AF_UNIX) as judge:
        try:
            judge.connect(place)
        except OSError as error:
            if os.environ.get(HOME):
                return  # it can be started here
            _fail(f"the judge cannot be reached: {error.strerror}", 3)
        with contextlib.suppress(
            BrokenPipeError, ConnectionResetError
        ):  # refused before it was asked: the answer says why
            judge.sendall(struct.pack("!I", len(request)) + request)
        try:
            raise SystemExit(_relayed(judge))
        except BrokenPipeError:
            raise SystemExit(141) from None
        except (OSError, EOFError):
            _fail("the judge ended before its answer was complete", 3)


def _relayed(judge: socket.socket) -> int:
    """Pass the judge's output on; return its exit code."""
    while True:
        tag, length = _FRAME.unpack(_exactly(judge, _FRAME.size))
        data = _exactly(judge, length)
        if tag == _EXIT:
            return int(data)
        while data:
            data = data[os.write(tag, data) :]


def _exactly(judge: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        piece = judge.recv(count - len(data))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)


def _fail(reason: str, code: int) -> NoReturn:
    print(f"[FAIL] {reason}", file=sys.stderr)
    raise SystemExit(code)
