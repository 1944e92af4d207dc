"""Sessions and submissions as files, and the judge as the process it is."""

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

HOME = Path(__file__).resolve().parents[3] / "sandbox_image"
WEAKENED = Path(__file__).resolve().parent / "weakened.py"

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

    def session(self, operator: str, settings: dict[str, Any]) -> Path:
        key = json.dumps([operator, settings], sort_keys=True)
        if key not in self.sessions:
            path = self.root / f"session{len(self.sessions)}"
            (path / "operator").mkdir(parents=True)
            (path / "operator" / "model.py").write_text(operator)
            (path / "session.json").write_text(json.dumps(settings))
            self.sessions[key] = path
        return self.sessions[key]


def invoke(
    session: Path,
    workspace: Path,
    command: str,
    report: Path,
    options: tuple[str, ...] = (),
    defences: dict[str, Any] | None = None,
) -> Answer:
    """Run the judge and read the report it wrote; with `defences` some of them are not as they should be."""
    nonce = "a nonce of the caller"
    if defences is None:
        line = [sys.executable, "-I", str(HOME), command, "--session", str(session), "--workspace", str(workspace)]
        line += ["--report", str(report), "--nonce", nonce, *options]
        environ = None
    else:
        line = [sys.executable, "-I", "-B", str(WEAKENED), str(HOME), json.dumps(defences), command]
        line += [str(session), str(workspace), str(report), nonce]
        environ = environment.clean(dict(os.environ))
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environ)
    assert report.exists(), f"no report; exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    read = Report.from_json(report.read_text())
    assert read.nonce == nonce
    return Answer(read, done.returncode, done.stdout, done.stderr)


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
