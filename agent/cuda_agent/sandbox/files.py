"""Files of a sandbox, read and written by a command inside it, so that the host never follows a path in there."""

import os
from collections.abc import Callable

from cuda_agent_tools.sandbox import ExecResult, SandboxError

FILE_TIMEOUT_S = 60.0
OS_ERROR = 40
"""Exit code of the scripts for an OSError; its number is what they print on stderr."""
TOO_LARGE = 41

READ_SCRIPT = """
import os, stat, sys
path, limit = sys.argv[1], int(sys.argv[2])
try:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # opening a FIFO must not wait
    about = os.fstat(descriptor)
    if stat.S_ISDIR(about.st_mode):
        raise IsADirectoryError(21, "")
    if not stat.S_ISREG(about.st_mode):
        raise OSError(22, "")
    with open(descriptor, "rb") as file:
        data = file.read(limit + 1)
except OSError as error:
    sys.stderr.write(str(error.errno))
    sys.exit(40)
if len(data) > limit:
    sys.exit(41)
sys.stdout.buffer.write(data)
"""

WRITE_SCRIPT = """
import os, stat, sys, time
path, data = sys.argv[1], sys.stdin.buffer.read()

try:
    if len(data) != int(sys.argv[2]):
        raise OSError(5, "")
    path = os.path.realpath(path)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(20, "")
    mode, before = None, 0
    try:
        about = os.stat(path)
    except FileNotFoundError:
        pass
    else:
        if stat.S_ISDIR(about.st_mode):
            raise IsADirectoryError(21, "")
        if not stat.S_ISREG(about.st_mode):
            raise OSError(22, "")
        if not os.access(path, os.W_OK):
            raise PermissionError(13, "")
        mode, before = stat.S_IMODE(about.st_mode), about.st_mtime_ns
    part = os.path.join(os.path.dirname(path), ".%s.part" % os.urandom(6).hex())
    try:
        with open(part, "xb") as file:
            file.write(data)
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.flush()
            # Two writes within one tick of the file system's clock must still look like two to a build.
            while os.fstat(file.fileno()).st_mtime_ns <= before <= time.time_ns():
                time.sleep(0.01)
                os.utime(file.fileno())
        os.replace(part, path)
    except BaseException:
        if os.path.exists(part):
            os.unlink(part)
        raise
except OSError as error:
    sys.stderr.write(str(error.errno))
    sys.exit(40)
"""


def closed(workspace: str) -> str:
    """Say that nothing can be run in a workspace any more, because somebody took away its own rights."""
    return f"the sandbox's workspace {workspace!r} cannot be entered any more; `chmod u+rwx` it and resume the run"


def read_file(execute: Callable[..., ExecResult], python: str, path: str, max_bytes: int) -> bytes:
    """Read `path` by a script that `execute` (a sandbox's `exec`) runs with the interpreter `python`.

    Raises:
        FileNotFoundError, IsADirectoryError, PermissionError: as their names say.
        ValueError: the file is larger than `max_bytes`.
    """
    argv = [python, "-I", "-S", "-c", READ_SCRIPT, path, str(max_bytes)]
    result = execute(argv, timeout_s=FILE_TIMEOUT_S, max_bytes=2 * max_bytes + 2)
    if result.exit_code == TOO_LARGE:
        raise ValueError(f"{path!r} is larger than {max_bytes} bytes")
    _check(result, path)
    return result.stdout


def write_file(execute: Callable[..., ExecResult], python: str, path: str, data: bytes) -> None:
    """Write `path` whole: a new file takes the old one's place, or nothing changes.

    Raises:
        IsADirectoryError, NotADirectoryError, PermissionError: as their names say.
        OSError: anything else, disk full for one.
    """
    argv = [python, "-I", "-S", "-c", WRITE_SCRIPT, path, str(len(data))]
    _check(execute(argv, stdin=data, timeout_s=FILE_TIMEOUT_S), path)


def _check(result: ExecResult, path: str) -> None:
    if result.exit_code == 0:
        return
    text = result.stderr.decode(errors="replace").strip()
    if result.exit_code == OS_ERROR and text.isdigit():
        number = int(text)
        raise OSError(number, "not a regular file" if number == 22 else os.strerror(number), path)
    if result.timed_out:
        raise TimeoutError(f"{path!r} could not be read or written within {FILE_TIMEOUT_S:.0f} s")
    raise SandboxError(f"the script that reads and writes files failed with {result.exit_code}: {text[-300:]}")
