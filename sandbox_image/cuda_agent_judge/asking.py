"""The host's way to a served judge: a request that bears a token, an answer that bears a seal. Standard library only.

Both are made with a key that the host handed to the server when it started it, and that is nowhere else: whoever shares
the judge's user may stand in for the server, but cannot make a report that the host takes.
"""

import contextlib
import hashlib
import hmac
import json
import os
import socket
from pathlib import Path

from cuda_agent_judge.frames import EXIT, FRAME, LENGTH, REPORT, STDERR, STDOUT
from cuda_agent_judge.output import write_whole

UNAVAILABLE = 4
"""Exit code: nobody there can answer, start a judge."""
HOST_COMMANDS = ("analyze", "verdict")


def token(key: bytes, command: str, nonce: str) -> str:
    """What shows that the host asks."""
    return hmac.new(key, f"ask {command} {nonce}".encode(), hashlib.sha256).hexdigest()


def seal(key: bytes, report: bytes) -> str:
    """What shows that the server it started answers."""
    return hmac.new(key, b"report " + report, hashlib.sha256).hexdigest()


def ask(place: Path, command: str, nonce: str, shown: str, report: Path) -> int:
    """Ask; the seal and the report are written to `report`, a line each. Returns the exit code."""
    request = json.dumps({"command": command, "arguments": [], "nonce": nonce, "token": shown}).encode()
    with socket.socket(socket.AF_UNIX) as judge:
        try:
            judge.connect(str(place))
            judge.sendall(LENGTH.pack(len(request)) + request)
            return _relayed(judge, report)
        except (OSError, EOFError, ValueError):
            return UNAVAILABLE


def _relayed(judge: socket.socket, report: Path) -> int:
    while True:
        tag, length = FRAME.unpack(_exactly(judge, FRAME.size))
        data = _exactly(judge, length)
        if tag == EXIT:
            return int(data)
        if tag == REPORT:
            write_whole(report, data)
        elif tag in (STDOUT, STDERR):
            with contextlib.suppress(BrokenPipeError):
                while data:
                    data = data[os.write(tag, data) :]


def _exactly(judge: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        piece = judge.recv(min(count - len(data), 1 << 20))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)
