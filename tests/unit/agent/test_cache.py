"""Where the machine's cache is kept, and what of it can be reached inside a sandbox."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cuda_agent.runs.place import Place
from cuda_agent.runs.sandboxes import opened
from cuda_agent.sandbox.cache import find_cache
from cuda_agent.sandbox.confinement import find_confinement

FOUND = find_confinement(Path(sys.executable), {"PATH": os.defpath})
ROOT = os.geteuid() == 0
OTHER = 4321


def test_the_place_is_what_the_variables_name_and_made_for_this_user_alone(tmp_path: Path) -> None:
    named, shared, home = tmp_path / "named", tmp_path / "xdg", tmp_path / "home"
    environ = {"HOME": str(home), "XDG_CACHE_HOME": str(shared), "CUDA_AGENT_CACHE": str(named)}
    assert find_cache(environ).path == str(named)
    del environ["CUDA_AGENT_CACHE"]
    assert find_cache(environ).path == str(shared / "cuda-agent")
    del environ["XDG_CACHE_HOME"]
    found = find_cache(environ)
    assert (found.path, found.note) == (str(home / ".cache" / "cuda-agent"), "")
    assert stat.S_IMODE(Path(found.path).stat().st_mode) == 0o700


def test_what_is_made_above_it_is_this_users_alone_whatever_the_umask(tmp_path: Path) -> None:
    script = "import os, sys; from cuda_agent.sandbox.cache import find_cache; print(find_cache({'HOME': sys.argv[1]}))"
    done = subprocess.run([sys.executable, "-c", f"import os; os.umask(0o002); {script}", tmp_path / "home"],
                          capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                          check=True)  # fmt: skip
    place = tmp_path / "home" / ".cache" / "cuda-agent"
    assert str(place) in done.stdout
    assert [stat.S_IMODE(one.stat().st_mode) for one in (place, *list(place.parents)[:2])] == [0o700] * 3


def test_there_is_none_where_none_is_wanted_or_no_home(tmp_path: Path) -> None:
    assert find_cache({"HOME": str(tmp_path), "CUDA_AGENT_CACHE": "none"}).path == ""
    assert find_cache({}).path == ""
    assert not list(tmp_path.iterdir())


def test_a_link_to_another_disk_is_followed_once_here(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    assert find_cache({"CUDA_AGENT_CACHE": str(tmp_path / "link" / "cache")}).path == str(tmp_path / "disk" / "cache")


def _file(place: Path) -> None:
    place.write_text("")


def _readable(place: Path) -> None:
    place.mkdir()
    place.chmod(0o755)


def _in_an_open_folder(place: Path) -> None:
    place.mkdir(mode=0o700)
    place.parent.chmod(0o777)


def _foreign(place: Path) -> None:
    place.mkdir(mode=0o700)
    os.chown(place, OTHER, OTHER)


@pytest.mark.parametrize("make", [_file, _readable, _in_an_open_folder, *([_foreign] if ROOT else [])])
def test_one_that_others_can_have_written_to_is_none_and_said(tmp_path: Path, make: Callable[[Path], None]) -> None:
    place = tmp_path / "home" / "cache"
    place.parent.mkdir()
    make(place)
    found = find_cache({"CUDA_AGENT_CACHE": str(place)})
    assert found.path == ""
    assert found.note.startswith("baselines are not kept: ")


def test_an_unconfined_model_is_never_near_it(tmp_path: Path) -> None:
    place = Place("local", sys.executable, "cpu", True, (), cache=str(tmp_path))
    assert place.cache_inside(model=True) is None
    assert (place.cache_inside(model=False) is not None) is ROOT


@pytest.mark.skipif(FOUND.confinement is None, reason=FOUND.why)
def test_where_a_model_runs_commands_it_can_be_read_and_not_written_to(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    (cache / "there").write_text("kept")
    place = Place("local", sys.executable, "cpu", True, (), FOUND.confinement, cache=str(cache))
    assert place.cache_inside(model=True) == str(cache)
    attempts = ("touch {0}/new", "echo x > {0}/there", "rm {0}/there", "chmod 777 {0}", "mv {0} {0}2", "rm -rf {0}")
    script = f"cat {cache}/there; " + "; ".join(
        f"({one.format(cache)}) 2> /dev/null && echo written" for one in attempts
    )
    with opened(place, workspace=tmp_path / "workspace") as inside:
        done = inside.sandbox.exec(["bash", "-c", script])
    assert done.stdout == b"kept"
    assert [path.name for path in cache.iterdir()] == ["there"]
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700


@pytest.mark.skipif(FOUND.confinement is None, reason=FOUND.why)
def test_where_no_model_is_the_judge_writes_to_it(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    place = Place("local", sys.executable, "cpu", True, (), FOUND.confinement, cache=str(cache))
    with opened(place, workspace=tmp_path / "workspace", writes_cache=True) as inside:
        assert inside.trusted.exec(["touch", f"{cache}/made"]).exit_code == 0
    assert (cache / "made").exists()
