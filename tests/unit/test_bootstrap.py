"""scripts/find_python.sh: which interpreter the host side is installed with."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "find_python.sh"


def write_program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def find(tmp_path: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the script with nothing on PATH but tmp_path/bin."""
    (tmp_path / "bin").mkdir(exist_ok=True)
    clean = {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path / "home"), **env}
    return subprocess.run(["/bin/sh", str(SCRIPT)], env=clean, capture_output=True, text=True, check=False)


def real_python(path: Path) -> Path:
    """A program that behaves as the interpreter that runs this test."""
    return write_program(path, f'exec "{os.path.realpath(sys.executable)}" "$@"')


def test_takes_a_python_on_path_that_runs(tmp_path: Path) -> None:
    expected = real_python(tmp_path / "bin" / "python3.12")
    assert find(tmp_path).stdout.strip() == str(expected)


def test_passes_over_a_shim_that_does_not_run(tmp_path: Path) -> None:
    write_program(tmp_path / "bin" / "python3.13", "echo 'pyenv: python3.13: command not found' >&2; exit 127")
    expected = real_python(tmp_path / "bin" / "python3.12")
    assert find(tmp_path).stdout.strip() == str(expected)


def test_looks_into_the_version_folders_of_pyenv(tmp_path: Path) -> None:
    expected = real_python(tmp_path / "pyenv" / "versions" / "3.12.9" / "bin" / "python3")
    assert find(tmp_path, PYENV_ROOT=str(tmp_path / "pyenv")).stdout.strip() == str(expected)


def test_asks_uv_last(tmp_path: Path) -> None:
    expected = real_python(tmp_path / "uv-pythons" / "python3")
    write_program(tmp_path / "bin" / "uv", f'[ "$2" = find ] && echo "{expected}"')
    assert find(tmp_path).stdout.strip() == str(expected)


@pytest.mark.parametrize(
    "old",
    ["exit 1", "echo 'Python 3.11' >&2; exit 1"],
    ids=["too old", "too old and talkative"],
)
def test_says_in_one_sentence_what_to_install(tmp_path: Path, old: str) -> None:
    write_program(tmp_path / "bin" / "python3", old)
    done = find(tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Python 3.12 or 3.13" in done.stderr
