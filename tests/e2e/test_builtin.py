"""The built-in model on real operators: the real program, sandbox, compiler and judge."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.program import ROOT, cuda_agent

DIAGONAL = """import torch
class Model(torch.nn.Module):
    def forward(self, a, b):
        return torch.diag(a) @ b
def get_inputs():
    return [torch.randn(512), torch.randn(512, 512)]
"""
SOFTMAX = """import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, 1)
def get_inputs():
    return [torch.randn(16, 100)]
"""


@dataclass(frozen=True)
class Run:
    """How a run ended, what it printed and what it left."""

    code: int
    printed: str
    folder: Path

    @property
    def document(self) -> dict[str, Any]:
        """What run.json says."""
        document: dict[str, Any] = json.loads((self.folder / "run.json").read_text())
        return document


def optimized(folder: Path, source: str) -> Run:
    operator = folder / "model.py"
    operator.write_text(source)
    done = cuda_agent("optimize", operator, "--run-dir", folder / "run", "--target", "cpu", cwd=folder)
    return Run(done.returncode, done.stdout, folder / "run")


def skeleton(printed: str) -> list[str]:
    """What each line is about: the tool of a call, a label, or the first words; continued lines are left out."""
    lines = [line for line in printed.splitlines() if line and not line.startswith(" ")]
    return [re.sub(r"^\[turn \d+\] ( +\w+:)?.*|^([\w ]+):.*|^((\w+ ){2}).*", r"\1\2\3", line) for line in lines]


@pytest.fixture(scope="module")
def diagonal(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return optimized(tmp_path_factory.mktemp("diag_matmul", numbered=False), DIAGONAL)


def test_it_reaches_the_target_on_a_product_with_a_diagonal_matrix(diagonal: Run) -> None:
    assert diagonal.code == 0, diagonal.document
    assert diagonal.document["stop"]["reason"] == "target_reached"
    assert (diagonal.folder / "best" / "kernels" / "diagonal_product.cpp").exists()


def test_a_run_looks_as_the_readme_shows(diagonal: Run) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = readme.split("<!-- run: ")[1].split("```")[1].partition("$ ")[2].partition("\n")[2]
    assert skeleton(diagonal.printed) == skeleton(shown)


def test_it_gives_up_on_what_it_has_no_recipe_for(tmp_path: Path) -> None:
    run = optimized(tmp_path, SOFTMAX)
    assert run.code == 1, run.document
    assert run.document["stop"]["reason"] == "gave_up"
    assert "aten._softmax" in run.document["stop"]["detail"]
