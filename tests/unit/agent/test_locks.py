"""Where the machine's locks are kept, and who gets at them inside a sandbox."""

import os
import stat
import sys
from pathlib import Path

import pytest

from cuda_agent.errors import ConfigError
from cuda_agent.runs.place import Place
from cuda_agent.runs.sandboxes import opened
from cuda_agent.sandbox.confinement import find_confinement
from cuda_agent.sandbox.locks import find_locks

FOUND = find_confinement(Path(sys.executable), {"PATH": os.defpath})


def test_the_first_place_is_made_with_the_rights_that_its_maker_calls_for(tmp_path: Path) -> None:
    found = find_locks({}, (tmp_path / "first", tmp_path / "second"))
    mode = stat.S_IMODE((tmp_path / "first").stat().st_mode)
    assert (found.path, found.note) == (str(tmp_path / "first"), "")
    assert mode == (0o700 if os.geteuid() == 0 else 0o1777)
    assert not (tmp_path / "second").exists()


def test_what_somebody_made_is_used_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir(mode=0o750)
    assert find_locks({}, (tmp_path / "locks",)).path == str(tmp_path / "locks")
    assert stat.S_IMODE((tmp_path / "locks").stat().st_mode) == 0o750


@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_place_that_is_no_directory_is_passed_over_and_said(tmp_path: Path, kind: str) -> None:
    first = tmp_path / "first"
    first.symlink_to(tmp_path) if kind == "link" else first.write_text("")
    found = find_locks({}, (first, tmp_path / "second"))
    assert found.path == str(tmp_path / "second")
    assert "is no directory" in found.note


def test_a_machine_without_a_place_for_locks_says_so(tmp_path: Path) -> None:
    found = find_locks({}, (tmp_path / "nowhere" / "locks",))
    assert found.path == ""
    assert "no place for locks" in found.note


def test_the_variable_names_a_directory_or_is_refused(tmp_path: Path) -> None:
    assert find_locks({"CUDA_AGENT_LOCKS": str(tmp_path / "mine")}).path == str(tmp_path / "mine")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"\$CUDA_AGENT_LOCKS names .*is no directory"):
        find_locks({"CUDA_AGENT_LOCKS": str(tmp_path / "file")})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can hand a directory to another user")
def test_another_users_directory_is_used_only_where_it_is_sticky(tmp_path: Path) -> None:
    for name, mode in (("loose", 0o777), ("sticky", 0o1777)):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(mode)
        os.chown(tmp_path / name, 4321, 4321)
    found = find_locks({}, (tmp_path / "loose", tmp_path / "sticky"))
    assert found.path == str(tmp_path / "sticky")
    assert "another user's" in found.note


@pytest.mark.parametrize(
    "confined",
    [
        False,
        pytest.param(True, marks=pytest.mark.skipif(FOUND.confinement is None, reason=FOUND.why)),
    ],
)
def test_commands_see_the_one_gpu_and_the_machines_locks(tmp_path: Path, confined: bool) -> None:
    locks = tmp_path / "locks"
    locks.mkdir()
    confinement = FOUND.confinement if confined else None
    place = Place("local", sys.executable, "cuda", True, (), confinement, gpu="GPU-7", locks=str(locks))
    assert place.locks_inside == str(locks)
    script = f"echo $CUDA_VISIBLE_DEVICES; touch {locks}/inside"
    with opened(place, workspace=tmp_path / "workspace") as inside:
        done = inside.sandbox.exec(["bash", "-c", script])
    assert (done.exit_code, done.stdout) == (0, b"GPU-7\n")
    assert (locks / "inside").exists()
