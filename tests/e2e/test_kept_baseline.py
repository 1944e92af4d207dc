"""A baseline that is kept before a model's first command is what the run's own judge takes, final verdicts included."""

import os
from pathlib import Path

import pytest

from cuda_agent.config import Settings
from cuda_agent.installing import Rules
from cuda_agent.judging import Judge, Submission
from cuda_agent.operators import load
from cuda_agent.runs.baseline import keep_baseline
from cuda_agent.runs.place import Place
from cuda_agent.runs.sandboxes import opened
from cuda_agent.sandbox.confinement import find_confinement

FOUND = find_confinement(Path("/usr/bin/python3"), {"PATH": os.defpath})
OPERATOR = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2
def get_inputs():
    return [torch.rand(256, 1024)]
"""
SUBMISSION = b"""
import torch
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2
"""


@pytest.mark.skipif(FOUND.confinement is None, reason=FOUND.why)
def test_a_confined_run_takes_what_was_kept_and_compiles_nothing(tmp_path: Path, sandbox_python: str) -> None:
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    (tmp_path / "model.py").write_text(OPERATOR)
    operator = load(tmp_path / "model.py")
    settings = Settings(operator=tmp_path / "model.py", target="cpu", libraries="any")
    confinement = find_confinement(Path(sandbox_python), {"PATH": os.defpath}).confinement
    place = Place("local", sandbox_python, "cpu", True, (), confinement, cache=str(cache))
    keep_baseline(place, operator, settings)
    kept = compiled(cache)
    assert kept
    with opened(place, workspace=tmp_path / "workspace") as inside:
        judge = Judge(inside.trusted, python=place.python)
        rules = Rules.of(settings, "cpu", model_shares_uid=True, cache=place.cache_inside(model=True))
        judge.install(operator, rules)
        inside.sandbox.write("model_new.py", SUBMISSION)
        first = judge.verdict()
        used = compiled(Path(inside.trusted.state_dir) / "session" / "cache")
        final = judge.final_verdict(Submission({"model_new.py": SUBMISSION}))
    for report in (first, final):
        assert (report.headline, report.isolation) == ("compile", "shared-uid")
        assert not [note for note in report.notes if "cache" in note]
    assert used == kept
    assert compiled(cache) == kept


def compiled(folder: Path) -> dict[str, int]:
    """The libraries that a compiler made, with the times at which it did."""
    return {path.name: path.stat().st_mtime_ns for path in folder.rglob("*.so")}
