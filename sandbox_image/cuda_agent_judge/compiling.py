"""Runs compilers: several at a time, within a time limit, and keeps of what they say the part that matters."""

import contextlib
import errno
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from cuda_agent_judge import free_memory
from cuda_agent_judge.isolation import Identity, drop_to

LINK = "the link"
"""Name of the job that links."""
LOG_LIMIT = 16_000
"""Characters of a log that is handed on."""
_READ_LIMIT = 400_000
_BYTES_A_JOB = 2 * 2**30
"""nvcc with torch's headers takes 3 GB at its worst, plain sources far less."""
_ERROR_LINE = re.compile(r"(?:\berror\b|\bfatal\b|undefined reference|multiple definition|ptxas fatal)", re.IGNORECASE)
_CHATTER = re.compile(r"ptxas info\s+: (?:\d+ bytes gmem$|Function properties|Compile time)")
_KILLED = re.compile(r"died due to signal (?:9|15)|Killed signal terminated|\bKilled\b.*program")
_SANDBOX_LIMITS = (
    (
        re.compile(r"No space left on device|Disk quota exceeded"),
        "the disk is full: {what}: remove files you do not need",
    ),
    (
        re.compile(r"[Cc]annot allocate memory|virtual memory exhausted|out of memory allocating"),
        "the compiler ran out of memory at {what}: make the file smaller or instantiate fewer templates",
    ),
    (
        re.compile(r"Resource temporarily unavailable"),
        "the sandbox allows no more processes ({what}): end background commands and compile again",
    ),
)


@dataclass(frozen=True)
class Job:
    """One command to run; `name` is how the log calls it (`kernels/x.cu`)."""

    name: str
    command: tuple[str, ...]


@dataclass(frozen=True)
class Finished:
    """A command that ended: its exit code (negative: the signal) and what it said."""

    job: Job
    code: int
    output: str

    @property
    def reason(self) -> str:
        """One sentence that says why it failed; "" when it did not."""
        if self.code == 0:
            return ""
        if self.code in (-signal.SIGKILL, 128 + signal.SIGKILL) or _KILLED.search(self.output):
            return (
                f"the compiler was killed at {self.job.name}, most likely because the sandbox ran out of memory: "
                "make the file smaller or instantiate fewer templates"
            )
        for pattern, sentence in _SANDBOX_LIMITS:
            if line := next((line for line in self.output.splitlines() if pattern.search(line)), ""):
                return sentence.format(what=f"{self.job.name} ({line.strip()[:200]})")
        failed = f"{self.job.name} {'fails' if self.job.name == LINK else 'does not compile'}"
        if first := next(iter(error_lines(self.output)), ""):
            return f"{failed}: {first[:300]}"
        return f"{failed}: {Path(self.job.command[0]).name} ended with exit code {self.code}"


@dataclass(frozen=True)
class _Running:
    job: Job
    process: subprocess.Popen[bytes]
    output: IO[bytes]


class BuildTimeout(Exception):
    """The commands did not end in time; all of them are gone."""


def run_all(
    jobs: Iterable[Job],
    *,
    cwd: Path,
    env: dict[str, str],
    scratch: Path,
    deadline: float,
    identity: Identity | None = None,
) -> list[Finished]:
    """Run the commands, as many at a time as cores and memory allow; all are run even when one fails.

    What they read is the submission's choice (an include, an assembler's `.incbin`), so they run under `identity`.

    Raises:
        BuildTimeout: `deadline` (time.monotonic) passed.
    """
    waiting = list(jobs)
    running: list[_Running] = []
    finished: list[Finished] = []
    width = parallel_jobs()
    try:
        while waiting or running:
            while waiting and len(running) < width:
                match _start(waiting.pop(0), cwd, env, scratch, identity):
                    case Finished() as failed:
                        finished.append(failed)
                    case _Running() as started:
                        running.append(started)
            for entry in [entry for entry in running if _ended(entry.process)]:
                running.remove(entry)
                finished.append(_finish(entry))
            if running and time.monotonic() > deadline:
                raise BuildTimeout
            time.sleep(0.005)
    finally:
        for entry in running:
            _kill(entry.process)
            entry.output.close()
    return finished


def parallel_jobs() -> int:
    """How many compilers run at once: one a core, and one per 2 GiB of memory that is free."""
    return max(1, min(len(os.sched_getaffinity(0)), free_memory.on_host() // _BYTES_A_JOB))


def error_lines(output: str) -> list[str]:
    """The lines of a compiler's output that say what is wrong, without the closing counts."""
    lines = [line.strip() for line in output.splitlines() if _ERROR_LINE.search(line)]
    return [line for line in lines if not re.match(r"\d+ errors? (?:detected|generated)|compilation terminated", line)]


def without_chatter(output: str) -> str:
    """The output of a command that went well, without what ptxas says of no kernel."""
    return "\n".join(line for line in output.splitlines() if not _CHATTER.search(line)).strip()


def shortened(output: str, limit: int = LOG_LIMIT) -> str:
    """The output within `limit` characters: its error lines first, then its beginning and end."""
    if len(output) <= limit:
        return output
    head = "\n".join(line[:400] for line in error_lines(output)[:20])[: limit // 2]
    rest = limit - len(head) - 80
    cut = len(output) - rest
    return f"{head}\n\n{output[: rest // 2]}\n[... {cut} characters left out ...]\n{output[-(rest // 2) :]}".lstrip(
        "\n"
    )


def unwritable(out_dir: Path, error: OSError) -> str:
    """Say that a build directory cannot be written, and what to do."""
    todo = "free space on its disk" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "make it writable"
    return f"the build directory {out_dir} cannot be written ({error.strerror}): {todo}"


def _start(job: Job, cwd: Path, env: dict[str, str], scratch: Path, identity: Identity | None) -> Finished | _Running:
    # A file instead of a pipe: nobody has to read along, and a compiler cannot block on it.
    stream = tempfile.TemporaryFile(dir=scratch)  # noqa: SIM115 (closed by _finish or run_all)
    try:
        process = subprocess.Popen(
            job.command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=None if identity is None else partial(drop_to, identity),
        )
    except (OSError, subprocess.SubprocessError) as error:
        stream.close()
        why = error.strerror if isinstance(error, OSError) else error
        return Finished(job, 127, f"error: {job.command[0]} cannot be started: {why}")
    return _Running(job, process, stream)


def _ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it ended; it is not reaped yet, so that its number still names its group."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _finish(entry: _Running) -> Finished:
    _kill(entry.process)  # what the driver may have left in its group
    with entry.output as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(0)
        text = stream.read(_READ_LIMIT)
        if size > 2 * _READ_LIMIT:
            stream.seek(size - _READ_LIMIT)
        text += stream.read(_READ_LIMIT)
    return Finished(entry.job, entry.process.returncode, text.decode("utf-8", "replace"))


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
