"""Copies the workspace out of a container, once, at the end of a run.

A command inside, as the model's user, lists and sends plain files and folders; here they are written into a folder that
nobody else ever wrote to, so no link can lead elsewhere. Links, devices and the like are left out. Owner of all is the
person who started the program.
"""

import base64
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO

from cuda_agent.files import writing
from cuda_agent.sandbox.docker.layout import PYTHON
from cuda_agent.sandbox.docker.sandbox import DockerSandbox
from cuda_agent_tools.sandbox import SandboxError

TIMEOUT_S = 300.0
MAX_LINE = 100_000
SEND_SCRIPT = """
import base64, os, stat, sys
out = sys.stdout.buffer
def send(kind, path, mode, mtime_ns, data):
    name = base64.b64encode(os.fsencode(path)).decode()
    out.write(f"{kind} {mode:o} {mtime_ns} {len(data)} {name}\\n".encode())
    out.write(data)
for folder, folders, files in os.walk("."):
    folders.sort()
    about = os.stat(folder)
    send("D", folder, stat.S_IMODE(about.st_mode), about.st_mtime_ns, b"")
    for name in sorted(files):
        path = os.path.join(folder, name)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(descriptor, "rb") as file:
                about = os.fstat(descriptor)
                if stat.S_ISREG(about.st_mode):
                    send("F", path, stat.S_IMODE(about.st_mode), about.st_mtime_ns, file.read())
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
        with writing(target):
            result = sandbox.stream([PYTHON, "-I", "-S", "-c", SEND_SCRIPT], _into(stream), timeout_s=TIMEOUT_S)
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
        if kind == b"D":
            path.mkdir(parents=True, exist_ok=True)
        else:
            _write(path, stream, *about)


def _write(path: Path, stream: IO[bytes], mode: int, mtime_ns: int, size: int) -> None:
    with open(path, "xb") as file:
        while size > 0:
            data = stream.read(min(size, 1 << 20))
            if not data:
                raise SandboxError("the container stopped in the middle of a file")
            file.write(data)
            size -= len(data)
        os.fchmod(file.fileno(), mode | 0o600)
    os.utime(path, ns=(mtime_ns, mtime_ns))


def _inside(folder: Path, name: str) -> Path:
    parts = PurePosixPath(name).parts
    if name.startswith("/") or ".." in parts or "\0" in name:
        raise ValueError(name)
    return folder.joinpath(*parts)


def _into(file: IO[bytes]) -> Callable[[bytes], None]:
    def take(data: bytes) -> None:
        file.write(data)

    return take
