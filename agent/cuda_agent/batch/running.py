"""One attempt at a job: the program in a process group of its own, watched, and ended where it hangs.

This is all that a placement has to call, on whichever machine the run is to be.
"""

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import IO, Any

_LEASH = Path(__file__).with_name("leash.py")
_POLL_S = 0.1
_MOST_SAID_BYTES = 8_000_000
_TAIL_BYTES = 4_000


class Halt(IntEnum):
    """How runs are to end before their time."""

    NO = 0
    IN_ORDER = 1
    """As Ctrl-C does: the best submission gets its final verdict."""
    AT_ONCE = 2
    """As SIGTERM does: what was reached is kept, nothing that takes long is begun."""


@dataclass(frozen=True)
class Patience:
    """How long is waited, in seconds."""

    quiet_s: float = 10_800.0
    """A run that wrote no event for so long hangs; it may wait an hour each for the device and a place to compile."""
    ending_s: float = 60.0
    """From being told to leave at once until it is killed."""
    locked_s: float = 120.0
    """For another process to let go of the run's folder: one of a batch that was killed is still ending."""


@dataclass(frozen=True)
class Attempt:
    """One process to be started."""

    job: str
    command: tuple[str, ...]
    run: Path
    """The run's folder; the program makes it, or goes on with it."""
    log: Path
    """Where its plain lines go, behind those of earlier attempts."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables beside those of the batch's own process."""
    gpu: str | None = None
    """The one GPU that it is told to use; None leaves the choice to the program."""
    patience: Patience = field(default_factory=Patience)


@dataclass(frozen=True)
class Ended:
    """How it ended."""

    job: str
    exit_code: int
    """Of the program; negative: the signal that killed it."""
    kind: str = ""
    """One word on what failed, as far as the program could tell: operator, config, disk, machinery, ..."""
    message: str = ""
    """The program's own sentence on it."""
    wall_s: float = 0.0
    cpu_s: float = 0.0
    """Of the program and of all its children that it waited for; a container's are not among them."""
    hung: bool = False
    gpu: str | None = None


def carry_out(attempt: Attempt, halt: Callable[[], Halt] = lambda: Halt.NO) -> Ended:
    """Run the program to its end; nothing of it is left running. `halt` is asked several times a second."""
    start = time.monotonic()
    try:
        if not _is_free(attempt, halt):
            held = "another process works on this run; wait for its end or stop it, and run the batch again."
            return Ended(attempt.job, 3, "in use", held, time.monotonic() - start)
        attempt.log.parent.mkdir(parents=True, exist_ok=True)
        with open(attempt.log, "ab") as log, tempfile.TemporaryFile() as said:
            process = _run(attempt, halt, said, log)
            kind, message = _error(said)
        if not message and (process.code not in (0, 1, 130) or not attempt.run.exists()):
            message = _last_line(attempt.log)
    except OSError as error:
        kind = "disk" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "machinery"
        return Ended(attempt.job, 3, kind, f"{error.filename or attempt.command[0]}: {error.strerror}.")
    wall_s = time.monotonic() - start
    return Ended(attempt.job, process.code, kind, message, wall_s, process.cpu_s, process.hung, attempt.gpu)


@dataclass(frozen=True)
class _Process:
    """How the process ended."""

    code: int
    cpu_s: float
    hung: bool


def _run(attempt: Attempt, halt: Callable[[], Halt], said: IO[bytes], log: IO[bytes]) -> _Process:
    gpu = () if attempt.gpu is None else (f"--gpu={attempt.gpu}",)
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(_LEASH), str(os.getpid()), *attempt.command, *gpu],
        stdin=subprocess.DEVNULL,
        stdout=said,
        stderr=log,
        env={**os.environ, **attempt.environment},
        start_new_session=True,
    )
    hung = True
    try:
        hung = _watch(process, attempt, halt)
    finally:
        # What the program started in its group and did not end goes with it; the sandbox's own is tied to the run.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return _Process(process.returncode, usage.ru_utime + usage.ru_stime, hung)


def _watch(process: subprocess.Popen[bytes], attempt: Attempt, halt: Callable[[], Halt]) -> bool:
    """Wait for the end of the process; return whether it hung."""
    trajectory = attempt.run / "trajectory.jsonl"
    size, grown = -1, time.monotonic()
    told, deadline, hung = Halt.NO, float("inf"), False
    while not _ended(process.pid):
        now = time.monotonic()
        if now >= deadline:
            return hung
        if (new := _size(trajectory)) != size:
            size, grown = new, now
        hung = hung or now - grown > attempt.patience.quiet_s
        wanted = Halt.AT_ONCE if hung else halt()
        if wanted > told:
            told = wanted
            deadline = now + attempt.patience.ending_s if told is Halt.AT_ONCE else deadline
            os.kill(process.pid, signal.SIGINT if told is Halt.IN_ORDER else signal.SIGTERM)
    return hung


def _ended(pid: int) -> bool:
    """Look whether it ended, and leave it to be waited for: until then nobody else can get its number."""
    if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        time.sleep(_POLL_S)
        return False
    return True


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return -1


def _is_free(attempt: Attempt, halt: Callable[[], Halt]) -> bool:
    """Wait until nobody holds the run's folder; False where somebody keeps it."""
    deadline = time.monotonic() + attempt.patience.locked_s
    while _is_held(attempt.run / "trajectory.jsonl"):
        if time.monotonic() >= deadline or halt() is not Halt.NO:
            return False
        time.sleep(_POLL_S)
    return True


def _is_held(file: Path) -> bool:
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(descriptor)
    return False


def _error(said: IO[bytes]) -> tuple[str, str]:
    """Return the kind and the sentence of the error that the program printed as JSON, if it did."""
    said.seek(0)
    try:
        document = json.loads(said.read(_MOST_SAID_BYTES))
    except ValueError:
        return "", ""
    error: Any = document.get("error") if isinstance(document, dict) else None
    if isinstance(error, dict):
        return str(error.get("kind", "")), str(error.get("message", ""))
    stop = (document.get("stop") or {}) if isinstance(document, dict) else {}
    return str(stop.get("kind", "")), str(error or stop.get("detail", ""))


def _last_line(log: Path) -> str:
    with open(log, "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        lines = file.read().decode("utf-8", "replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
