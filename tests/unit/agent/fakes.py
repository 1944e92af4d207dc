"""Small stand-ins at the loop's seams: a sandbox of real commands, a judge that answers from a list, two tools."""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cuda_agent.judging import Submission
from cuda_agent.llm.model import Reply, ToolCall
from cuda_agent.snapshots import Entry, Snapshots
from cuda_agent.trajectory import Event
from cuda_agent.workspace import Captured
from cuda_agent_judge.report import Interval, Report, Status
from cuda_agent_tools.sandbox import DEFAULT_MAX_BYTES, ExecResult
from cuda_agent_tools.tool import ToolError, ToolResult


class FakeSandbox:
    """Two directories and `subprocess.run`."""

    def __init__(self, root: Path) -> None:
        self.workspace = str(root / "workspace")
        self.state_dir = str(root / "state")
        for folder in (self.workspace, self.state_dir):
            os.makedirs(folder)

    def exec(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        timeout_s: float = 120.0,
        max_bytes: int = DEFAULT_MAX_BYTES,
        on_output: Callable[[bytes], None] | None = None,
    ) -> ExecResult:
        where = os.path.join(self.workspace, cwd or "")
        try:
            done = subprocess.run(
                list(argv),
                cwd=where,
                env={**os.environ, **(env or {})},
                input=stdin,
                capture_output=True,
                timeout=timeout_s,
            )
        except subprocess.TimeoutExpired:
            return ExecResult(None, b"", b"", timeout_s, timed_out=True)
        if on_output is not None:
            on_output(done.stdout + done.stderr)
        return ExecResult(done.returncode, done.stdout, done.stderr, 0.0)

    def read(self, path: str, *, max_bytes: int = 50_000_000) -> bytes:
        return Path(self.workspace, path).read_bytes()

    def write(self, path: str, data: bytes) -> None:
        file = Path(self.workspace, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)


def capturing(store: Snapshots, files: Mapping[str, bytes]) -> Callable[[int], Captured]:
    """What keeps these files, as they are by then, at the end of each turn."""

    def capture(turn: int) -> Captured:
        tree = {name: Entry("file", store.keep(data), 0o644, len(data)) for name, data in files.items()}
        kept = store.record(turn, tree)
        return Captured(Submission(dict(files)), kept.name, len(kept.changed), len(kept.removed), ())

    return capture


def report(status: Status, speedup: float | None = None, *, final: bool = False, **more: Any) -> Report:
    """A verdict with this median speedup over torch.compile."""
    speedups = {} if speedup is None else {"compile": Interval(speedup, speedup * 0.9, speedup * 1.1)}
    return Report(command="verdict", status=status, speedup=speedups, final=final, **more)


class FakeJudge:
    """Answers in-loop and final verdicts from two lists; `profiled` stands for the model's own judge commands."""

    def __init__(self, verdicts: Sequence[Report] = (), finals: Sequence[Report] = ()) -> None:
        self.verdicts = list(verdicts)
        self.finals = list(finals)
        self.profiled: list[Report] = []
        self.asked: list[str] = []
        self.timeouts: list[float] = []

    def verdict(self, *, timeout_s: float, on_output: Callable[[bytes], None] | None = None) -> Report:
        self.asked.append("verdict")
        self.timeouts.append(timeout_s)
        return self.verdicts.pop(0)

    def final_verdict(
        self, submission: Submission, *, timeout_s: float, on_output: Callable[[bytes], None] | None = None
    ) -> Report:
        self.asked.append(f"final {submission.files['model_new.py'].decode()}")
        self.timeouts.append(timeout_s)
        return self.finals.pop(0)

    def new_profiles(self) -> list[Report]:
        found, self.profiled = self.profiled, []
        return found


class Write:
    """A tool that replaces the submission."""

    name = "Write"
    description = "Write model_new.py."

    def __init__(self, files: dict[str, bytes]) -> None:
        self.parameters: dict[str, Any] = {"type": "object", "required": ["text"]}
        self._files = files

    def run(self, arguments: Mapping[str, Any], *, on_output: Callable[[bytes], None] | None = None) -> ToolResult:
        if arguments["text"] == "impossible":
            raise ToolError("that cannot be written")
        self._files["model_new.py"] = arguments["text"].encode()
        return ToolResult(f"wrote {arguments['text']}")


class Profile:
    """A tool that makes the judge record a passing profile of what is there."""

    name = "Profile"
    description = "Profile."

    def __init__(self, judge: FakeJudge, files: dict[str, bytes]) -> None:
        self.parameters: dict[str, Any] = {"type": "object"}
        self._judge = judge
        self._files = files

    def run(self, arguments: Mapping[str, Any], *, on_output: Callable[[bytes], None] | None = None) -> ToolResult:
        now = self._files["model_new.py"].decode()
        self._judge.profiled.append(
            Report(command="profile", status="win", speedup={"compile": Interval(1, 1, 1)}, submission_sha256=now)
        )
        return ToolResult("profiled")


class Heard:
    """A listener that keeps the events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_event(self, event: Event) -> None:
        self.events.append(event)

    def on_output(self, data: bytes) -> None:
        pass

    def of(self, kind: str) -> list[Any]:
        return [event for event in self.events if event.type == kind]


def call(name: str, identity: str = "c1", **arguments: Any) -> ToolCall:
    return ToolCall(identity, name, arguments)


def calls(*made: ToolCall, text: str = "") -> Reply:
    return Reply(text=text, tool_calls=made, finish_reason="tool_calls")


DONE = Reply(text="done")
