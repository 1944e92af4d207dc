"""A baseline that is kept before a model's first command is what the run's own judge takes, final verdicts included."""

import math
import os
from pathlib import Path

import pytest

from cuda_agent.config import Settings
from cuda_agent.installing import Rules
from cuda_agent.judging import Judge, Submission
from cuda_agent.operators import load
from cuda_agent.runs.baseline import keep_baseline, limit_of
from cuda_agent.runs.place import Place
from cuda_agent.runs.sandboxes import opened
from cuda_agent.sandbox.confinement import Confinement, find_confinement

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
    begun: list[str] = []
    keep_baseline(place, operator, settings, time_left=lambda: 19.0, begun=lambda: begun.append("late"))
    assert (begun, compiled(cache)) == ([], {})
    keep_baseline(place, operator, settings, time_left=lambda: math.inf, begun=lambda: begun.append("in time"))
    assert begun == ["in time"]
    kept = compiled(cache)
    assert kept
    keep_baseline(place, operator, settings, begun=lambda: begun.append("again"))
    assert begun == ["in time"]  # nobody is told that something is compiled when nothing is
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


@pytest.mark.parametrize(("left_s", "limit_s"), [(math.inf, 300.0), (3600.0, 300.0), (60.0, 15.0), (-1.0, -0.25)])
def test_it_takes_a_quarter_of_the_time_that_is_left_and_never_long(left_s: float, limit_s: float) -> None:
    assert limit_of(left_s) == limit_s


def test_a_machine_without_room_for_it_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.py").write_text(OPERATOR)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))  # what $TMPDIR is read into, once a process
    place = Place("local", "python", "cpu", True, (), Confinement("bwrap", "python", (), ()), cache=str(tmp_path))
    settings = Settings(operator=tmp_path / "model.py")
    begun: list[str] = []
    keep_baseline(place, load(settings.operator), settings, time_left=lambda: 60.0, begun=lambda: begun.append("it"))
    assert begun == []


def compiled(folder: Path) -> dict[str, int]:
    """The libraries that a compiler made, with the times at which it did."""
    return {path.name: path.stat().st_mtime_ns for path in folder.rglob("*.so")}
