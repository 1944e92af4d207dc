"""Bash: one command after the other in what looks to the model like one shell.

Each command is a process tree of its own; the session (`bash_session.py`) is handed from one to the next in a file.
"""

import secrets
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import Field

from cuda_agent_tools.arguments import Arguments, parse, schema
from cuda_agent_tools.background import Jobs
from cuda_agent_tools.bash_session import session_argv
from cuda_agent_tools.sandbox import ExecResult, Sandbox
from cuda_agent_tools.terminal_text import halves_text, terminal_text
from cuda_agent_tools.tool import ToolError, ToolResult
from cuda_agent_tools.truncate import truncate

MAX_TIMEOUT_MS = 600_000
KEPT_BYTES = 2_000_000
"""How much of a command's output is kept (and saved) at most."""
SIGNALS = {
    132: "illegal instruction",
    134: "aborted",
    135: "bus error",
    136: "arithmetic error",
    137: "killed, perhaps for want of memory",
    139: "segmentation fault",
}


class BashArguments(Arguments):
    """What Bash takes."""

    command: str = Field(min_length=1)
    timeout: int = Field(default=120_000, ge=1, le=MAX_TIMEOUT_MS, description="milliseconds")
    description: str = Field(default="", description="what it does, in a few words")
    run_in_background: bool = Field(default=False, description="start it and go on; its output goes to a log file")


class Bash:
    """Runs shell commands in the sandbox."""

    name = "Bash"
    description = (
        "Run a command in a bash session that starts in the workspace. Directory, variables, functions and shell "
        "options last from call to call; background jobs end with the call. There is no stdin. A command is killed "
        f"at its timeout (at most {MAX_TIMEOUT_MS} ms). stdout and stderr come together; long output is cut and "
        "saved to a file."
    )

    def __init__(self, sandbox: Sandbox) -> None:
        """Run commands in `sandbox`, the session's state beside its workspace."""
        self.parameters: dict[str, Any] = schema(BashArguments)
        self._sandbox = sandbox
        self.jobs = Jobs(sandbox)
        """The commands in the background."""

    def run(self, arguments: Mapping[str, Any], *, on_output: Callable[[bytes], None] | None = None) -> ToolResult:
        """Run one command.

        Raises:
            ToolError: the arguments are wrong, or no shell could be started.
            SandboxLost: the sandbox is gone.
        """
        call = parse(BashArguments, arguments, tool=self.name)
        if call.run_in_background:
            return ToolResult("\n".join([*self.jobs.news(), self._start(call.command)]))
        result = self._execute(call.command, call.timeout / 1000, on_output)
        parts = [self._shown(result)]
        if result.timed_out:
            parts.append(self._after_timeout(call.timeout, result.duration_s))
        elif result.exit_code:
            meaning = SIGNALS.get(result.exit_code)
            parts.append(f"[exit code {result.exit_code}{f': {meaning}' if meaning else ''}]")
        return ToolResult("\n".join([*parts, *self.jobs.news()]), is_error=result.timed_out)

    def _start(self, command: str) -> str:
        try:
            return self.jobs.start(_encoded(command))
        except OSError as error:
            raise ToolError(f"Bash: the command could not be started: {error}") from error

    def _execute(self, command: str, timeout_s: float, on_output: Callable[[bytes], None] | None = None) -> ExecResult:
        text = _encoded(command)
        try:
            return self._sandbox.exec(
                session_argv(self._sandbox.state_dir),
                stdin=text,
                timeout_s=timeout_s,
                max_bytes=KEPT_BYTES,
                on_output=on_output,
            )
        except OSError as error:
            raise ToolError(f"Bash: the shell could not be started: {error}") from error

    def _shown(self, result: ExecResult) -> str:
        if not terminal_text(result.stdout).strip():
            size = len(result.stdout) + result.stdout_dropped
            return f"({size:,} bytes of output, nothing of it can be shown)" if size > 100 else "(no output)"
        text = halves_text(result.stdout, result.stdout_dropped).strip("\n")
        shown = truncate(text)
        if not shown.cut:
            return text
        kept = "all of it" if not result.stdout_dropped else f"all but {result.stdout_dropped:,} bytes of it"
        return f"{shown.text}\n[output cut; {kept} is in {self._save(text)}]"

    def _save(self, text: str) -> str:
        path = f"{self._sandbox.state_dir}/outputs/{secrets.token_hex(4)}.txt"
        try:
            self._sandbox.write(path, f"{text}\n".encode())
        except OSError as error:
            return f"no file, because it could not be saved ({error.strerror})"
        return path

    def _after_timeout(self, timeout_ms: int, duration_s: float) -> str:
        said = self._execute("pwd", 10.0).stdout.decode(errors="replace").splitlines()
        where = said[-1] if said else self._sandbox.workspace  # the last line: the session may be tracing
        if duration_s < 0.9 * timeout_ms / 1000:
            # The sandbox gave it less than the call asked for.
            return f"[stopped after {duration_s:.0f} s, because the run's time is up; nothing it started is left.]"
        longer = f", set `timeout` (up to {MAX_TIMEOUT_MS}) if it needs longer" if timeout_ms < MAX_TIMEOUT_MS else ""
        return (
            f"[timed out after {timeout_ms / 1000:g} s: the command and all it started were killed{longer}. "
            f"The shell was restarted in {where} with its last variables. "
            "Commands get no stdin: give input on the command line or by <.]"
        )


def _encoded(command: str) -> bytes:
    text = command.encode()
    if b"\0" in text:
        raise ToolError("Bash: `command` holds a NUL character; write it as \\0 in printf instead")
    return text
