"""Sessions and submissions as files, and the judge as the process it is."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cuda_agent_judge import environment
from cuda_agent_judge.report import Report

LOCKS = "CUDA_AGENT_LOCKS"
"""The environment's name for the machine's locks, by which tests and measurements at once keep a GPU apart."""
HOME = Path(__file__).resolve().parents[3] / "sandbox_image"
FORKING = Path(__file__).resolve().parent / "forking.py"

SCALE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2
def get_inputs():
    return [torch.rand(256, 1024)]
"""
RELU = SCALE.replace(" * 2", "")
LINEAR = """
import torch
class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)
    def forward(self, x):
        return self.linear(x)
def get_inputs():
    return [torch.randn(32, 64)]
def get_init_inputs():
    return [64]
"""


@dataclass(frozen=True)
class Answer:
    """What one call of the judge left."""

    report: Report
    code: int
    stdout: str
    stderr: str


Judge = Callable[..., "Answer"]


@dataclass(frozen=True)
class Bench:
    """A place for sessions; those of the same operator share a session directory and so its caches."""

    root: Path
    sessions: dict[str, Path] = field(default_factory=dict)
    builds: Path | None = None
    """Where all sessions build, so that the kernels of several are compiled once; each has a folder of its own else."""

    def session(self, operator: str, settings: dict[str, Any]) -> Path:
        key = json.dumps([operator, settings], sort_keys=True)
        if key not in self.sessions:
            path = self.root / f"session{len(self.sessions)}"
            (path / "operator").mkdir(parents=True)
            (path / "operator" / "model.py").write_text(operator)
            (path / "session.json").write_text(json.dumps(settings))
            if self.builds is not None:
                self.builds.mkdir(exist_ok=True)
                (path / "build").symlink_to(self.builds)
            self.sessions[key] = path
        return self.sessions[key]


def invoke(
    session: Path,
    workspace: Path,
    command: str,
    report: Path,
    options: tuple[str, ...] = (),
    defences: dict[str, Any] | None = None,
    forking: "Forking | None" = None,
) -> Answer:
    """Run the judge, anew or `forking`, and read the report it wrote; with `defences` some are not as they should."""
    nonce = "a nonce of the caller"
    if defences is None and forking is None:
        line = [sys.executable, "-I", str(HOME), command, "--session", str(session), "--workspace", str(workspace)]
        line += ["--report", str(report), "--nonce", nonce, *options]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        code, stdout, stderr = done.returncode, done.stdout, done.stderr
    else:
        target = json.loads((session / "session.json").read_text()).get("target", "cpu")
        request: dict[str, Any] = {
            "session": str(session),
            "workspace": str(workspace),
            "report": str(report),
            "nonce": nonce,
        }
        request |= {"command": command, "final": False, "baseline": "--baseline" in options}
        request |= {"plain": False, "defences": defences or {}}
        with contextlib.nullcontext(forking) if forking else Forking(target) as process:
            code, stdout, stderr = process.ask(request)
    assert report.exists(), f"no report; exit code {code}\n{stdout}\n{stderr}"
    read = Report.from_json(report.read_text())
    assert read.nonce == nonce
    return Answer(read, code, stdout, stderr)


class Forking:
    """A process that has imported torch, forks one for each request and can do what no option of the judge can."""

    def __init__(self, target: str) -> None:
        line = [sys.executable, "-I", "-B", str(FORKING), target, str(HOME)]
        pipe = subprocess.PIPE
        environ = environment.clean(dict(os.environ))
        self._process = subprocess.Popen(line, stdin=pipe, stdout=pipe, text=True, env=environ)

    def __enter__(self) -> "Forking":
        return self

    def __exit__(self, *raised: object) -> None:
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()

    def ask(self, request: dict[str, Any]) -> tuple[int, str, str]:
        """Have a request carried out; returns the exit code and what was printed."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(request) + "\n")
        stdin.flush()
        answer = stdout.readline()
        assert answer, f"no answer; exit code {self._process.wait()}"
        told = json.loads(answer)
        return told["code"], told["stdout"], told["stderr"]


def model_new(forward: str, *, head: str = "", init: str = "pass") -> str:
    """A submission with this body of forward(self, x)."""
    lines = "\n        ".join(forward.strip().splitlines())
    start = "\n        ".join(init.strip().splitlines())
    return f"""
import torch
{head}
class ModelNew(torch.nn.Module):
    def __init__(self, *given):
        super().__init__()
        {start}
    def forward(self, x):
        {lines}
"""
