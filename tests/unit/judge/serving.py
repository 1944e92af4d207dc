"""A served judge of its own, and clients under any uid."""

import contextlib
import json
import os
import select
import socket
import struct
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from judging import HOME

MODEL = 12345
"""A uid that stands for the model's."""
_SERVE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from cuda_agent_judge import client
from cuda_agent_judge.serve import ServeFault, serve
client.REQUEST_LIMIT_S = float(sys.argv[6])
client.READING_LIMIT_S = float(sys.argv[6])
try:
    raise SystemExit(serve(*map(Path, sys.argv[2:6])))
except ServeFault as fault:
    raise SystemExit(str(fault))
"""
FAKE = """
import os, subprocess, sys, time
command = sys.argv[1]
note = os.path.join(os.path.dirname(__file__), "note")
if command == "analyze":
    print(*sys.argv[1:])
    print("err", file=sys.stderr)
    raise SystemExit(7)
if command == "compile":  # runs on, with a child in a session of its own
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    with open(note, "w") as file:
        file.write(f"{os.getpid()} {child.pid}\\n")
    print("started", flush=True)
    time.sleep(1000)
if command == "verify":  # a flood
    while True:
        os.write(1, b"x" * 65536)
if command == "profile":
    os.kill(os.getpid(), 9)
"""


@dataclass(frozen=True)
class Told:
    """What a client heard."""

    stdout: bytes
    stderr: bytes
    code: int | None
    """None where the answer broke off."""


@dataclass
class Served:
    """A judge that listens."""

    process: subprocess.Popen[str]
    place: Path

    def connect(self) -> socket.socket:
        one = socket.socket(socket.AF_UNIX)
        one.settimeout(60)
        one.connect(str(self.place))
        return one

    def ask(self, command: str, *arguments: str) -> Told:
        with self.connect() as one:
            with contextlib.suppress(BrokenPipeError):  # refused before it was asked
                one.sendall(request(command, *arguments))
            return hear(one)


def request(command: object, *arguments: object) -> bytes:
    return framed(json.dumps({"command": command, "arguments": arguments}).encode())


def framed(body: bytes) -> bytes:
    return struct.pack("!I", len(body)) + body


def hear(one: socket.socket) -> Told:
    streams = {1: b"", 2: b""}
    while header := _exactly(one, 5):
        tag, length = struct.unpack("!BI", header)
        data = _exactly(one, length)
        if tag == 3:
            return Told(streams[1], streams[2], int(data))
        streams[tag] += data
    return Told(streams[1], streams[2], None)


def _exactly(one: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        try:
            piece = one.recv(count - len(data))
        except ConnectionResetError:
            return b""
        if not piece:
            return b""
        data += piece
    return data


def serve(ground: Path, home: Path, *, limit_s: float = 60.0) -> Served:
    """Start a server on a session and a workspace in `ground`."""
    (ground / "session").mkdir(exist_ok=True)
    place = ground / "judge.sock"
    paths = [str(path) for path in (HOME, home, ground / "session", ground / "workspace", place)]
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", _SERVE, *paths, str(limit_s)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    return Served(process, place)


def as_uid(uid: int, work: Callable[[], object]) -> object:
    """What `work` returns (as JSON) in a process of another uid."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            os.write(writer, json.dumps(work()).encode())
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        said = stream.read()
    os.waitpid(pid, 0)
    return json.loads(said)


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def readable(one: socket.socket, limit_s: float) -> bool:
    return bool(select.select([one], [], [], limit_s)[0])
