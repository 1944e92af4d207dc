import subprocess
from pathlib import Path

import pytest

from cuda_agent.batch.listing import Selection, find
from cuda_agent.batch.provenance import source_of

OPERATOR = "class Model:\n    pass\n\n\ndef get_inputs():\n    return []\n"


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "SomeBench"
    (root / "level1").mkdir(parents=True)
    for number in (1, 2):
        (root / f"level1/{number}_öp.py").write_text(OPERATOR + f"# {number}\n")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    return root


def source(folder: Path, named: str | None = None) -> str:
    return source_of(find(folder, Selection()), named)


def test_a_checkout_is_known_by_its_commit(checkout: Path) -> None:
    head = git(checkout, "rev-parse", "HEAD")[:12]
    for folder in (checkout, checkout / "level1"):
        said, _, digest = source(folder).partition("; ")
        assert said == f"SomeBench {head}"
        assert digest.startswith("sha256 ")


@pytest.mark.parametrize("hidden", ["", "assume-unchanged", "ignored"])
def test_a_changed_operator_is_said_even_where_git_would_not_say_it(checkout: Path, hidden: str) -> None:
    changed = checkout / "level1/2_öp.py"
    before = source(checkout)
    changed.write_text(OPERATOR + "# changed\n")
    if hidden == "assume-unchanged":
        git(checkout, "update-index", "--assume-unchanged", str(changed))
    if hidden == "ignored":
        git(checkout, "rm", "-q", "--cached", str(changed))
        (checkout / ".gitignore").write_text("*.py\n")
    after = source(checkout)
    assert " with 1 changed; sha256 " in after
    assert after.rpartition(" ")[2] != before.rpartition(" ")[2]


def test_what_a_checkout_does_not_hold_is_not_called_by_its_commit(checkout: Path) -> None:
    (checkout / "mine").mkdir()
    (checkout / "mine/op.py").write_text(OPERATOR)
    assert source(checkout / "mine").startswith("mine, no checkout; sha256 ")


def test_a_checkouts_settings_run_nothing(checkout: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    script = tmp_path / "monitor.sh"
    script.write_text(f"#!/bin/sh\ntouch '{mark}'\n")
    script.chmod(0o755)
    git(checkout, "config", "core.fsmonitor", str(script))
    assert source(checkout).startswith("SomeBench ")
    assert not mark.exists()


def test_a_person_may_name_the_source(checkout: Path) -> None:
    assert source(checkout, "KernelBench v0.1").startswith("KernelBench v0.1; sha256 ")
