"""Copies the workspace out of a container, once, at the end of a run.

A command inside, as the model's user, lists and sends plain files and folders; here they are written into a folder that
nobody else ever wrote to, so no link can lead elsewhere. Links, devices and the like are left out, and so is what is
more than a workspace can hold. Owner of all is the person who started the program.
"""

import base64
import errno
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO

from cuda_agent.files import writing
from cuda_agent.sandbox.docker.layout import GIB, PYTHON
from cuda_agent.sandbox.docker.sandbox import DockerSandbox
from cuda_agent_tools.sandbox import SandboxError

TIMEOUT_S = 300.0
MAX_LINE = 100_000
MAX_BYTES = 2 * GIB
"""Of all that is sent. The workspace's file system is smaller, but files with holes take no room in it."""
SEND_SCRIPT = """
import base64, os, stat, sys
out, left = sys.stdout.buffer, int(sys.argv[1])
def send(kind, path, about, size):
    global left
    name = base64.b64encode(os.fsencode(path)).decode()
    head = f"{kind} {stat.S_IMODE(about.st_mode):o} {about.st_mtime_ns} {size} {name}\\n".encode()
    fits = len(head) + size <= left
    if fits:
        left -= len(head) + size
        out.write(head)
    return fits
def send_file(path):
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        rest = about.st_size
        if not stat.S_ISREG(about.st_mode) or not send("F", path, about, rest):
            return
        while rest > 0:
            piece = min(rest, 1 << 20)
            out.write(file.read(piece).ljust(piece, b"\\0"))  # it may have become shorter
            rest -= piece
for folder, folders, files in os.walk("."):
    folders.sort()
    try:
        send("D", folder, os.lstat(folder), 0)
    except OSError:  # a background command removed it just now
        continue
    for name in sorted(files):
        try:
            send_file(os.path.join(folder, name))
        except OSError:
            continue
"""


def copy_workspace(sandbox: DockerSandbox, target: Path) -> None:
    """Replace the folder `target` by what is in the workspace now; a part is never left.

    Raises:
        DiskError: there is no room for it.
        SandboxError: the container sends nothing that can be used.
        SandboxLost: it is gone.
    """
    fresh = target.with_name(f".{target.name}.new")
    with tempfile.TemporaryFile() as stream:
        argv = [PYTHON, "-I", "-S", "-c", SEND_SCRIPT, str(MAX_BYTES)]
        with writing(target):
            result = sandbox.stream(argv, into(stream, MAX_BYTES), timeout_s=TIMEOUT_S)
        if result.exit_code != 0:
            said = result.stderr.decode(errors="replace").strip()[-300:]
            raise SandboxError(f"the workspace could not be copied out of the container: {said or 'it took too long'}")
        stream.seek(0)
        with writing(target):
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir(parents=True)
            try:
                receive(stream, fresh)
                shutil.rmtree(target, ignore_errors=True)
                fresh.rename(target)
            finally:
                shutil.rmtree(fresh, ignore_errors=True)


def receive(stream: IO[bytes], folder: Path) -> None:
    """Write what the script sent below `folder`, which must be new.

    Raises:
        SandboxError: it is not what the script sends.
    """
    while line := stream.readline(MAX_LINE):
        try:
            kind, mode, mtime_ns, size, name = line.split()
            path = _inside(folder, os.fsdecode(base64.b64decode(name, validate=True)))
            about = (int(mode, 8) & 0o777, int(mtime_ns), int(size))
        except ValueError as error:
            raise SandboxError(f"the container sent no list of files: {line[:80]!r}") from error
        try:
            (path if kind == b"D" else path.parent).mkdir(parents=True, exist_ok=True)
            if kind != b"D":
                _write(path, stream, *about)
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            stream.seek(about[-1], os.SEEK_CUR)  # the way to it is longer here than in there


def _write(path: Path, stream: IO[bytes], mode: int, mtime_ns: int, size: int) -> None:
    with open(path, "xb") as file:
        while size > 0:
            data = stream.read(min(size, 1 << 20))
            if not data:
                raise SandboxError("the container stopped in the middle of a file")
            file.write(data)
            size -= len(data)
        os.fchmod(file.fileno(), mode | 0o600)
    with suppress(OverflowError):  # no time that this system knows
        os.utime(path, ns=(mtime_ns, mtime_ns))


def _inside(folder: Path, name: str) -> Path:
    parts = PurePosixPath(name).parts
    if name.startswith("/") or ".." in parts or "\0" in name:
        raise ValueError(name)
    return folder.joinpath(*parts)


def into(file: IO[bytes], limit: int) -> Callable[[bytes], None]:
    """Return what writes the pieces it is given into the file, and refuses more than `limit` bytes in all."""

    def take(data: bytes) -> None:
        if file.tell() + len(data) > limit:
            raise SandboxError("the container sends more than its workspace can hold")
        file.write(data)

    return take
