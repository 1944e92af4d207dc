"""What a killed run left is removed at the next start, and nothing else is."""

import subprocess
import sys
from pathlib import Path

from tests.e2e.program import environment

from cuda_agent.runs.scratch import PREFIX, remove_orphans, scratch

OWNER = """
import sys, time
from pathlib import Path
from cuda_agent.runs.scratch import scratch
with scratch(Path(sys.argv[1])) as folder:
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
        assert remove_orphans(tmp_path, older_than_s=0) == 1
        assert not of_dead.exists()
        assert of_alive.exists()
        assert all(other.exists() for other in others)
        alive.kill()


def test_it_goes_with_its_owner(tmp_path: Path) -> None:
    with scratch(tmp_path) as folder:
        assert folder.stat().st_mode & 0o777 == 0o711
        assert remove_orphans(tmp_path, older_than_s=0) == 0
    assert list(tmp_path.iterdir()) == []
