"""Talks to the judge in a sandbox: installs it, starts it, reads its Report from the file it was told to write.

Nothing is ever parsed from what a command prints. The judge's rules and roles are its own (docs/judge.md).
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from cuda_agent.errors import JudgeError
from cuda_agent.installing import Rules, below, home, judge_files, last_words, session, session_files, write_files
from cuda_agent.operators import Operator, digest
from cuda_agent.sandbox.service import Served
from cuda_agent_judge.report import Report
from cuda_agent_tools.sandbox import ExecResult, Sandbox

SUBMISSION = "model_new.py"
HOME_VARIABLE = "CUDA_AGENT_JUDGE_HOME"
SESSION_VARIABLE = "CUDA_AGENT_JUDGE_SESSION"

WAITING_S = 3600.0
"""For other runs on the same device."""
ANALYZE_TIMEOUT_S = 900.0 + WAITING_S
VERDICT_TIMEOUT_S = 1800.0 + WAITING_S
MAX_SUBMISSION_BYTES = 32 << 20
"""Of all files together, as in the judge."""


class JudgeTimeout(JudgeError):
    """The judge was killed at its deadline."""


@dataclass(frozen=True)
class Submission:
    """The files of a submission as they stood at one moment."""

    files: Mapping[str, bytes]
    """model_new.py and kernels/, by POSIX name."""

    @property
    def sha256(self) -> str:
        """Over names and bytes, on the host only: the judge's own digest is another one."""
        return digest(self.files)

    @property
    def exists(self) -> bool:
        """Whether there is anything to judge."""
        return SUBMISSION in self.files


def environment(state_dir: str, judge_home: str | None = None) -> dict[str, str]:
    """Return what the workspace's commands need to find the judge; `judge_home` is where it stands already."""
    return {HOME_VARIABLE: judge_home or home(state_dir), SESSION_VARIABLE: session(state_dir)}


def serve_command(python: str, judge_home: str, state_dir: str, workspace: str) -> list[str]:
    """Return the words that start a judge which listens, but for the socket."""
    return [python, "-I", judge_home, "serve", "--session", session(state_dir), "--workspace", workspace]


class Judge:
    """The judge of one run."""

    def __init__(self, sandbox: Sandbox, *, python: str, judge_home: str | None = None) -> None:
        """Where the sandbox brings the judge along, `judge_home` is its place, and none is copied into it."""
        self._sandbox = sandbox
        self._python = python
        self._home = judge_home
        self._session = session(sandbox.state_dir)
        self.served: Served | None = None
        """A judge that listens, where there is one: it is asked for all but final verdicts."""
        self._files: dict[str, bytes] = {}
        self._profiles_seen = 0
        self._steps_seen = 0
        self._finals: list[Report] = []

    def install(self, operator: Operator, rules: Rules) -> None:
        """Copy the judge and the pristine operator into the sandbox's state area."""
        self._files = session_files(operator, rules) | (judge_files() if self._home is None else {})
        files = below(self._sandbox.state_dir, self._files | {"/reports/": b""})
        write_files(self._sandbox, self._python, files)

    def analyze(
        self, *, timeout_s: float = ANALYZE_TIMEOUT_S, on_output: Callable[[bytes], None] | None = None
    ) -> Report:
        """Screen the operator and trace it; an unusable one is a Report of status `operator_error`.

        Raises:
            JudgeError: the judge itself failed.
        """
        return self._ask(["analyze"], timeout_s, on_output)

    def keep(self, *, timeout_s: float, on_output: Callable[[bytes], None] | None = None) -> None:
        """Have the baseline compiled into the machine's cache; nothing depends on it.

        Where it is there already, nothing is printed.
        """
        argv = [self._python, "-I", self._home or home(self._sandbox.state_dir), "keep", "--session", self._session]
        self._sandbox.exec(argv, cwd=self._sandbox.workspace, timeout_s=timeout_s, on_output=on_output)

    def verdict(
        self,
        *,
        timeout_s: float = VERDICT_TIMEOUT_S,
        on_output: Callable[[bytes], None] | None = None,
    ) -> Report:
        """Judge what is in the workspace now, as fast as that can be done.

        Raises:
            JudgeError: the judge itself failed.
        """
        return self._ask(["verdict", "--workspace", self._sandbox.workspace], timeout_s, on_output)

    def final_verdict(
        self,
        submission: Submission,
        *,
        timeout_s: float = VERDICT_TIMEOUT_S,
        on_output: Callable[[bytes], None] | None = None,
    ) -> Report:
        """Judge these files, whatever the workspace holds by now: clean build, new seeds, baselines timed again.

        The judge and the operator are installed anew beside them: a model that runs commands as the same user can have
        written to the others.

        Raises:
            JudgeError: the judge itself failed.
        """
        folder = f"{self._sandbox.state_dir}/final-{secrets.token_hex(4)}"
        files = {f"{folder}/{name}": data for name, data in submission.files.items()}
        files |= below(f"{folder}-state", self._files)
        write_files(self._sandbox, self._python, files)
        report = self._ask(["verdict", "--final", "--workspace", folder], timeout_s, on_output, f"{folder}-state")
        self._finals.append(report)
        return report

    def new_profiles(self) -> list[Report]:
        """Return the passing profiles that were recorded since the last call, of baselines alone too, oldest first."""
        reports, self._profiles_seen = self._records(self._profiles_seen)
        return [report for report in reports if report.command == "profile" and report.passed]

    def new_steps(self) -> list[Report]:
        """Return every report that was recorded since the last call (builds and checks too), oldest first."""
        reports, self._steps_seen = self._records(self._steps_seen)
        return reports

    def held(self) -> dict[str, float]:
        """Return what all commands held and waited for, final verdicts too, in seconds by kind (see the Report)."""
        total: dict[str, float] = {}
        for report in (*self._records(0)[0], *self._finals):
            for kind, seconds in report.held.items():
                total[kind] = total.get(kind, 0.0) + seconds
        return total

    def _records(self, seen: int) -> tuple[list[Report], int]:
        """Return the reports behind the first `seen` bytes of the records, and how many bytes are read by now."""
        try:
            data = self._sandbox.read(f"{self._session}/records.jsonl")
        except (FileNotFoundError, ValueError):
            return [], seen
        fresh = data[seen if seen <= len(data) else 0 :]
        whole = fresh.rfind(b"\n") + 1
        reports = [report for line in fresh[:whole].splitlines() if (report := _record(line))]
        return reports, len(data) - len(fresh) + whole

    def _ask(
        self,
        command: list[str],
        timeout_s: float,
        on_output: Callable[[bytes], None] | None,
        state_dir: str | None = None,
    ) -> Report:
        place = state_dir or self._sandbox.state_dir
        if self.served is not None and state_dir is None:
            report = self._ask_served(self.served, command[0], timeout_s, on_output)
            if report is not None:
                return report
        nonce, file = self._expected()
        argv = [self._python, "-I", self._home or home(place), *command, "--session", session(place), "--report", file]
        result = self._sandbox.exec(
            [*argv, "--nonce", nonce],
            cwd=self._sandbox.workspace,
            env=environment(self._sandbox.state_dir, self._home),
            timeout_s=timeout_s,
            on_output=on_output,
        )
        if result.timed_out:
            raise JudgeTimeout(f"The judge's {command[0]} was stopped after {timeout_s:.0f} s.")
        return self._answer(file, nonce, command[0], result)

    def _expected(self) -> tuple[str, str]:
        """Return a nonce and where the answer that bears it is to be; no two calls share them."""
        nonce = secrets.token_hex(16)
        return nonce, f"{self._sandbox.state_dir}/reports/{nonce[:12]}.json"

    def _ask_served(
        self, served: Served, command: str, timeout_s: float, on_output: Callable[[bytes], None] | None
    ) -> Report | None:
        """Ask the judge that listens; None where nothing comes back that it has sealed."""
        nonce, file = self._expected()
        argv = [self._python, "-I", self._home or home(self._sandbox.state_dir), command, "--socket", served.socket]
        words = ["--report", file, "--nonce", nonce, "--token", served.token(command, nonce)]
        env = environment(self._sandbox.state_dir, self._home)
        result = self._sandbox.exec([*argv, *words], env=env, timeout_s=timeout_s, on_output=on_output)
        if result.timed_out:
            raise JudgeTimeout(f"The judge's {command} was stopped after {timeout_s:.0f} s.")
        try:
            text = served.opened(self._sandbox.read(file))
            report = None if text is None else Report.from_json(text.decode())
        except (FileNotFoundError, ValueError):
            return None
        return report if report is not None and report.nonce == nonce and report.command == command else None

    def _answer(self, file: str, nonce: str, command: str, result: ExecResult) -> Report:
        said = f"exit code {result.exit_code}; it said: {last_words(result)!r}"
        try:
            text = self._sandbox.read(file)
        except FileNotFoundError:
            text = b""
        if result.exit_code == 3 or not text:
            raise JudgeError(f"The judge's {command} failed ({said}).")
        try:
            report = Report.from_json(text.decode())
        except ValueError as error:
            raise JudgeError(f"The judge's {command} left no report that can be read: {error} ({said}).") from error
        if report.nonce != nonce:
            raise JudgeError(f"The judge's {command} left a report that is not the answer to this call ({said}).")
        return report


def is_submission_file(name: str) -> bool:
    """Say whether a path relative to the workspace belongs to a submission."""
    return name == SUBMISSION or PurePosixPath(name).parts[:1] == ("kernels",)


def _record(line: bytes) -> Report | None:
    try:
        return Report.from_json(line.decode())
    except ValueError:
        return None
