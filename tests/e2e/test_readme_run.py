"""The demo reaches its target, and the run that README.md shows has the structure of a real one."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from tests.e2e.program import ROOT, cuda_agent

README = (ROOT / "README.md").read_text(encoding="utf-8")
SHOWN = README.split("<!-- run: made by scripts/readme_run.py -->\n```\n")[1].split("\n```\n")[0]
FOLDER = "run"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("demo") / FOLDER
    operator = "examples/diag_matmul/model.py"
    return folder, cuda_agent("optimize", operator, "--target", "cpu", "--run-dir", folder, cwd=ROOT)


def kinds(text: str) -> list[str]:
    """Each line by its label, or where it has none by its first three words, numbers aside."""
    whole = [line for line in text.splitlines() if not line.startswith(" ")]  # where a line is continued varies
    lines = [re.sub(r"\d+(\.\d+)?", "N", line).partition(": ")[0].split() for line in whole]
    return [" ".join(words[:3]) for words in lines if words]


def labels(text: str) -> list[str]:
    """The summary's labels in order."""
    return re.findall(r"^([A-Z][a-z]+): ", text, flags=re.MULTILINE)


def test_the_demo_beats_torch_compile_tenfold(demo: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    folder, done = demo
    document = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert document["stop"]["reason"] == "target_reached"
    assert document["result"]["final"] is True
    assert document["result"]["isolation"] == "shared-uid"  # in `local` a model's commands run as the judge does
    assert document["result"]["speedup"]["compile"]["median"] > 10
    assert (folder / "best" / "kernels" / "diagonal_product.cpp").exists()


def test_the_readme_shows_the_same_kinds_of_lines(demo: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    _, done = demo
    shown = SHOWN.partition("\n")[2]
    missing = set(kinds(shown)) - set(kinds(done.stdout + done.stderr))
    assert not missing


def test_the_readme_shows_the_same_summary(demo: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    _, done = demo
    assert labels(SHOWN) == labels(done.stdout)
    assert "Verdict" in labels(SHOWN)
