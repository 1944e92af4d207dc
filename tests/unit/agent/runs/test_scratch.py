"""What a killed run left is removed at the next start, and nothing else is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.program import environment

from cuda_agent.runs.scratch import PREFIX, left_behind, remove_orphans, scratch

OWNER = """
import sys, time
from pathlib import Path
from cuda_agent.runs.scratch import scratch
with scratch(Path(sys.argv[1])) as folder:
    (folder / "shell.state").write_text("mine")
    print(folder, flush=True)
    time.sleep(600)
"""


def owner(root: Path) -> tuple[subprocess.Popen[str], Path]:
    """Another process that has a directory."""
    program = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(root)], stdout=subprocess.PIPE, text=True, env=environment()
    )
    assert program.stdout is not None
    return program, Path(program.stdout.readline().strip())


def test_only_what_a_dead_process_left_is_removed(tmp_path: Path) -> None:
    others = [tmp_path / f"{PREFIX}too_long_a_name", tmp_path / "cuda-agent", tmp_path / "x"]
    for other in others:
        other.mkdir()
    (tmp_path / f"{PREFIX}abcdefgh").symlink_to(others[2])
    alive, of_alive = owner(tmp_path)
    dead, of_dead = owner(tmp_path)
    with alive, dead:
        dead.kill()
        dead.wait()
        assert remove_orphans(tmp_path, older_than_s=3600) == 0  # it might be about to be locked
        assert left_behind(of_dead, "shell.state") == b"mine"
        assert remove_orphans(tmp_path, older_than_s=0) == 1
        assert not of_dead.exists()
        assert of_alive.exists()
        assert all(other.exists() for other in others)
        assert left_behind(of_dead, "shell.state") is None
        alive.kill()


def test_it_goes_with_its_owner(tmp_path: Path) -> None:
    with scratch(tmp_path) as folder:
        assert folder.stat().st_mode & 0o777 == 0o711
        assert remove_orphans(tmp_path, older_than_s=0) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["link", "fifo", "folder", "large", "elsewhere"])
def test_nothing_but_a_small_regular_file_of_a_scratch_directory_is_taken(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / ("elsewhere" if kind == "elsewhere" else f"{PREFIX}abcdefgh")
    folder.mkdir()
    file = folder / "shell.state"
    match kind:
        case "link":
            file.symlink_to("/etc/passwd")
        case "fifo":
            os.mkfifo(file)
        case "folder":
            file.mkdir()
        case "large":
            file.write_bytes(b"x" * 11)
        case _:
            file.write_bytes(b"x")
    assert left_behind(folder, "shell.state", max_bytes=10) is None
