"""A second run's baseline is the first one's: what a compiler was asked for says so, and no clock."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from caching import ROOT, session_in
from judging import SCALE, Answer, invoke, model_new

from cuda_agent_judge import machine_cache
from cuda_agent_judge.session import load


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Has everything that is compiled by a judge of this module noted in a file."""
    folder = tmp_path_factory.mktemp("compiler")
    real = shutil.which("g++")
    (folder / "g++").write_text(
        f'#!/bin/sh\ncase "$*" in *" -o "*) echo "$*" >> {folder}/log;; esac\nexec {real} "$@"\n'
    )
    (folder / "g++").chmod(0o755)
    (folder / "log").write_text("")
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{folder}{os.pathsep}{before}"
    yield folder / "log"
    os.environ["PATH"] = before


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory, compiler: Path) -> Path:
    """The ground of a run that has filled the cache."""
    ground = tmp_path_factory.mktemp("runs")
    ground.chmod(0o755)
    (ground / "workspace").mkdir()
    answer = run(ground, "first", "keep")
    assert (answer.report.status, answer.report.notes) == ("measured", [])
    assert compiler.read_text()
    return ground


def run(ground: Path, name: str, command: str, *options: str) -> Answer:
    """A command of a judge whose session is its own."""
    session = ground / name if (ground / name).exists() else session_in(ground / name, ground / "cache")
    return invoke(session, ground / "workspace", command, ground / f"{name}.json", options)


@pytest.mark.skipif(not ROOT, reason="a submission has a uid of its own only where the judge is root")
def test_the_first_verdict_of_a_second_run_compiles_nothing_and_its_submission_cannot_write_there(
    first_run: Path, compiler: Path
) -> None:
    compiler.write_text("")
    before = sorted(os.walk(first_run / "cache"))
    plants = f"try:\n    open({str(first_run / 'cache' / 'planted')!r}, 'w')\nexcept PermissionError:\n    pass"
    (first_run / "workspace" / "model_new.py").write_text(model_new("return torch.relu(x) * 2", init=plants))
    for name, options in (("second", ()), ("final", ("--final",))):
        report = run(first_run, name, "verdict", *options).report
        assert (report.isolation, report.headline) == ("separate-uid", "compile")
        assert "compile baseline" in report.phases
    assert compiler.read_text() == ""
    assert not (first_run / "second" / "cache" / "ceilings.json").exists()
    assert sorted(os.walk(first_run / "cache")) == before


@pytest.mark.skipif(not ROOT, reason="a submission has a uid of its own only where the judge is root")
def test_what_is_kept_and_broken_is_compiled_anew_and_replaced(first_run: Path, compiler: Path) -> None:
    compiler.write_text("")
    libraries = sorted((first_run / "cache").rglob("*.so"))
    for library in libraries:
        library.write_bytes(library.read_bytes()[:100])
    report = run(first_run, "third", "profile", "--baseline").report
    assert (report.status, report.headline) == ("measured", "compile")
    assert compiler.read_text()
    assert all(library.stat().st_size > 1000 for library in (first_run / "cache").rglob("*.so"))


def test_nothing_to_keep_is_known_without_importing_torch(first_run: Path) -> None:
    session = load(first_run / "first")
    assert machine_cache.is_kept(session)
    assert not machine_cache.is_kept(load(session_in(first_run / "other", first_run / "cache", SCALE + "\n")))
