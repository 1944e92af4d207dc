"""Commands that run beside the session: each in a thread that waits for it, its output in a log file of the sandbox.

They see the session's directory, variables and functions as they are at their start and change nothing in it. They end
with the sandbox at the latest, because `Sandbox.exec` leaves nothing behind.
"""

import re
import secrets
import shlex
import threading
from dataclasses import dataclass, field

from cuda_agent_tools.bash_session import background_argv
from cuda_agent_tools.sandbox import ExecResult, Sandbox, SandboxError

LIMIT_S = 86_400.0
"""A background command is killed after a day; the run's own time limit comes earlier."""
_BEGUN = re.compile(r"^\[job (\d+) runs in the background; its output goes to (.+?)\. `jobs` lists", re.MULTILINE)
_ENDED = re.compile(r"^\[background job \d+ .*; its output is in (.+)\]$", re.MULTILINE)
START_S = 10.0
"""How long to wait until a command that was started says its process id."""


@dataclass
class Job:
    """One background command."""

    number: int
    command: str
    log: str
    """Path of its output, as seen from inside."""
    started: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    said: bytes = b""
    result: ExecResult | None = None
    failure: str = ""
    told: bool = False
    """The model was told of its end."""

    @property
    def pid(self) -> str:
        """The process id inside; "" as long as it is not known."""
        line, newline, _ = self.said.partition(b"\n")
        return line.decode("ascii", "replace").strip() if newline else ""

    @property
    def end(self) -> str:
        """How it ended; "" while it runs."""
        if self.failure:
            return self.failure
        if self.result is None:
            return ""
        if self.result.timed_out:
            return "was stopped, because the time is up"
        return f"ended with exit code {self.result.exit_code}"


class Jobs:
    """The background commands of one sandbox."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._jobs: list[Job] = []

    def start(self, command: bytes) -> str:
        """Start a command and say how to follow and to end it.

        Raises:
            SandboxLost: the sandbox is gone.
            OSError: its log cannot be written.
        """
        number = len(self._jobs) + 1
        # Numbers begin anew with each process that works on a run; what an earlier one's command printed stays.
        log = f"{self._sandbox.state_dir}/jobs/{number}-{secrets.token_hex(4)}.log"
        job = Job(number, command.decode("utf-8", "replace"), log)
        self._sandbox.write(job.log, b"")
        self._jobs.append(job)
        threading.Thread(target=self._run, args=(job, command), name=f"job-{number}", daemon=True).start()
        job.started.wait(START_S)
        log = shlex.quote(job.log)
        if job.end:
            job.told = True
            return f"[job {number} {job.end}; its output is in {log}]"
        return (
            f"[job {number} runs in the background; its output goes to {log}."
            f" `jobs` lists such jobs, `kill {job.pid}` ends this one; all end with the run.]"
        )

    def stop(self) -> None:
        """End those that run; the model is not told of them any more.

        Raises:
            SandboxLost: the sandbox is gone.
        """
        for job in self._jobs:
            job.told = True
            if job.pid and not job.end:
                self._sandbox.exec(["kill", "-KILL", job.pid], timeout_s=START_S)
                job.ended.wait(START_S)

    def news(self) -> list[str]:
        """Return a line for each job that has ended since this was asked last."""
        ended = [job for job in self._jobs if job.end and not job.told]
        for job in ended:
            job.told = True
        return [f"[background job {job.number} {job.end}; its output is in {shlex.quote(job.log)}]" for job in ended]

    def _run(self, job: Job, command: bytes) -> None:
        def heard(data: bytes) -> None:
            job.said = (job.said + data)[:64]
            if job.pid:
                job.started.set()

        argv = background_argv(self._sandbox.state_dir, job.log)
        try:
            job.result = self._sandbox.exec(argv, stdin=command, timeout_s=LIMIT_S, max_bytes=1000, on_output=heard)
        except (OSError, SandboxError) as error:
            job.failure = f"could not be run ({error})"
        finally:
            job.started.set()
            job.ended.set()


def begun_in(answer: str) -> list[tuple[int, str]]:
    """Return number and log of each command that this answer to a call says runs in the background."""
    return [(int(number), _unquoted(log)) for number, log in _BEGUN.findall(answer)]


def ended_in(answer: str) -> list[str]:
    """Return the logs of those that it says have ended."""
    return [_unquoted(log) for log in _ENDED.findall(answer)]


def _unquoted(word: str) -> str:
    try:
        return shlex.split(word)[0]
    except (ValueError, IndexError):  # no text of ours
        return word
