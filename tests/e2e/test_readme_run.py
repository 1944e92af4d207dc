"""The demo reaches its target, and the run that README.md shows has the structure of a real one."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from tests.e2e.program import ROOT, cuda_agent, environment

README = (ROOT / "README.md").read_text(encoding="utf-8")
SHOWN = README.split("<!-- run: made by scripts/readme_run.py -->\n```\n")[1].split("\n```\n")[0]
FOLDER = "run"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The first run on a machine."""
    folder = tmp_path_factory.mktemp("demo") / FOLDER
    operator = "examples/diag_matmul/model.py"
    env = environment(CUDA_AGENT_CACHE=str(tmp_path_factory.mktemp("cache")))
    return folder, cuda_agent("optimize", operator, "--target", "cpu", "--run-dir", folder, cwd=ROOT, env=env)


def kinds(text: str) -> list[str]:
    """Each line by its label, or where it has none by its first three words, numbers aside."""
    whole = [line for line in text.splitlines() if not line.startswith(" ")]  # where a line is continued varies
    lines = [re.sub(r"\d+(\.\d+)?", "N", line).partition(": ")[0].split() for line in whole]
    return [" ".join(words[:3]) for words in lines if words]


def stages(text: str) -> list[str]:
    """What the run says that it waits for, by the first three words."""
    return [" ".join(line.split()[:3]) for line in text.splitlines() if re.match(r"(the|starting) .* \.\.\.$", line)]


def unconfined(printed: str) -> set[str]:
    """The lines of the README's run that are missing where commands are not confined: nothing is kept there."""
    return set() if "confined by bwrap" in re.sub(r"\s+", " ", printed) else {"the baseline is"}


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
    printed = done.stdout + done.stderr
    assert not set(kinds(shown)) - set(kinds(printed)) - unconfined(printed)
    assert set(stages(shown)) == set(stages(printed)) | unconfined(printed)


def test_the_readme_shows_the_same_summary(demo: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    _, done = demo
    assert labels(SHOWN) == labels(done.stdout)
    assert "Verdict" in labels(SHOWN)
