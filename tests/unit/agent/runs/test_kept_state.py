"""What a fork takes of its parent's state: the model wrote there, so only plain files of known names are taken."""

import os
from pathlib import Path

import pytest

from cuda_agent.runs.kept_state import copy_outputs


def copied(state: Path, into: Path) -> dict[str, bytes]:
    copy_outputs(state, into)
    return {path.relative_to(into).as_posix(): path.read_bytes() for path in into.rglob("*") if path.is_file()}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Logs, a long output, and the shell's state."""
    folder = tmp_path / "state"
    for name in ("jobs/1-ab.log", "jobs/1-ab.job", "outputs/cd.txt", "shell.state", "outputs/deep/x.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


OUTPUTS = {"jobs/1-ab.log": b"jobs/1-ab.log", "outputs/cd.txt": b"outputs/cd.txt"}


def test_logs_and_outputs_are_taken(state: Path, tmp_path: Path) -> None:
    assert copied(state, tmp_path / "new") == OUTPUTS


def test_a_run_without_any_has_none_to_give(tmp_path: Path) -> None:
    assert copied(tmp_path / "none", tmp_path / "new") == {}


@pytest.mark.parametrize("kind", ["link", "fifo", "folder", "link to itself"])
def test_no_link_and_no_special_file_is_followed(state: Path, tmp_path: Path, kind: str) -> None:
    odd = state / "jobs/2-ab.log"
    match kind:
        case "link":
            odd.symlink_to("/etc/passwd")
        case "fifo":
            os.mkfifo(odd)
        case "folder":
            odd.mkdir()
        case _:
            odd.symlink_to(odd)
    assert copied(state, tmp_path / "new") == OUTPUTS


def test_a_link_in_the_place_of_a_folder_is_not_followed(state: Path, tmp_path: Path) -> None:
    (state / "jobs").rename(tmp_path / "elsewhere")
    (state / "jobs").symlink_to(tmp_path / "elsewhere")
    assert copied(state, tmp_path / "new") == {"outputs/cd.txt": b"outputs/cd.txt"}
