"""Every operator in examples/, at its full size: analysed, and the kernel written for it built and checked."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.program import ROOT

from cuda_agent.llm.builtin.graph import read_graph
from cuda_agent.llm.builtin.recipes import choose
from cuda_agent.operators import load

EXAMPLES = sorted(path.parent.name for path in (ROOT / "examples").glob("*/model.py"))


def ask_judge(command: str, place: Path, python: str) -> dict[str, Any]:
    """Run a command of the judge as the workspace's own commands do, without the loop and its baselines."""
    line = [python, "-I", str(ROOT / "sandbox_image"), command, "--session", str(place / "session")]
    done = subprocess.run(
        [*line, "--workspace", str(place / "workspace"), "--json"], capture_output=True, text=True, check=False
    )
    assert done.stdout, done.stderr
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def test_there_are_examples_of_every_family() -> None:
    assert {"diag_matmul", "pointwise_chain", "mixed_residual_norm", "gemm_row_total", "radial_features"} <= set(
        EXAMPLES
    )


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_kernel_for_an_example_is_right(name: str, tmp_path: Path, sandbox_python: str) -> None:
    for path, data in load(ROOT / "examples" / name).files.items():
        (tmp_path / "session" / "operator").mkdir(parents=True, exist_ok=True)
        (tmp_path / "session" / "operator" / path).write_bytes(data)
    (tmp_path / "session" / "session.json").write_text("{}")
    shutil.copytree(ROOT / "sandbox_image" / "workspace", tmp_path / "workspace")
    analysis = ask_judge("analyze", tmp_path, sandbox_python)
    assert analysis["status"] == "measured", analysis
    design = choose(read_graph(analysis["analysis"]))
    variant = next(iter(design.variants().values()))
    for path, text in design.files(variant).items():
        (tmp_path / "workspace" / path).write_text(text)
    report = ask_judge("verify", tmp_path, sandbox_python)
    assert report["status"] == "correct", report
