"""Tests that fail once where they may run again, and where they may not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "pytest.sh"
ONCE = "def test_once():\n    first = not there.exists()\n    there.touch()\n    assert not first\n"
NEVER = "def test_never():\n    assert False\n"
GOOD = "def test_good():\n    pass\n"
BROKEN = "def test_broken(:\n"


def ran(folder: Path, tests: str, again: str) -> "subprocess.CompletedProcess[str]":
    (folder / "test_it.py").write_text(f"import pathlib\nthere = pathlib.Path({str(folder / 'there')!r})\n" + tests)
    command = ["sh", str(SCRIPT), sys.executable, "--rootdir", str(folder), str(folder)]
    environ = os.environ | {"FAILED_TESTS_AGAIN": again}
    return subprocess.run(command, capture_output=True, text=True, env=environ, cwd=folder, check=False)


@pytest.mark.parametrize(("tests", "again", "code"), [
    (GOOD, "1", 0),
    (GOOD + ONCE, "1", 0),
    (GOOD + ONCE, "", 1),
    (ONCE + NEVER, "1", 1),
    (ONCE + BROKEN, "1", 2),
    ("", "1", 5),
])  # fmt: skip
def test_what_failed_decides_the_second_time_where_that_is_asked_for(
    tmp_path: Path, tests: str, again: str, code: int
) -> None:
    done = ran(tmp_path, tests, again)
    assert done.returncode == code, done.stdout
    assert ("once more" in done.stdout) == (again == "1" and (ONCE in tests or NEVER in tests) and code < 2)


def test_only_what_failed_runs_again(tmp_path: Path) -> None:
    shown = ran(tmp_path, GOOD + ONCE, "1").stdout.partition("once more")[2]
    assert "test_once PASSED" in shown
    assert "test_good" not in shown
