"""Sessions and submissions as files, and the judge as the process it is."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cuda_agent_judge.report import Report

HOME = Path(__file__).resolve().parents[3] / "sandbox_image"

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


def invoke(session: Path, workspace: Path, command: str, report: Path, options: tuple[str, ...] = ()) -> Answer:
    """Run the judge and read the report it wrote."""
    nonce = "a nonce of the caller"
    line = [sys.executable, "-I", str(HOME), command, "--session", str(session), "--workspace", str(workspace)]
    done = subprocess.run(
        [*line, "--report", str(report), "--nonce", nonce, *options], capture_output=True, text=True, check=False
    )
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
