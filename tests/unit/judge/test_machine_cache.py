"""What is kept from run to run: found again by what it depends on, whole or not at all, within a limit."""

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from caching import filled, kept, session_in

from cuda_agent_judge import machine_cache
from cuda_agent_judge.cache_key import Surroundings, keys_of
from cuda_agent_judge.session import Session, load

AROUND = Surroundings("NVIDIA H200", 16, "2.11.0", "3.6.0", "3.12.3", "g++ 13")
CHANGES: dict[str, Callable[[Session, Surroundings], tuple[Session, Surroundings]]] = {
    "precision": lambda session, around: (replace(session, precision="ieee"), around),
    "target": lambda session, around: (replace(session, target="cpu"), around),
    "device": lambda session, around: (session, replace(around, device="NVIDIA H100")),
    "cores": lambda session, around: (session, replace(around, cores=8)),
    "torch": lambda session, around: (session, replace(around, torch="2.12.0")),
    "triton": lambda session, around: (session, replace(around, triton="3.7.0")),
    "python": lambda session, around: (session, replace(around, python="3.13.0")),
    "compiler": lambda session, around: (session, replace(around, compiler="g++ 14")),
}


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return load(session_in(tmp_path / "session", tmp_path / "cache", target="cuda"))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_whatever_decides_the_code_decides_the_folder(
    session: Session, change: Callable[[Session, Surroundings], tuple[Session, Surroundings]]
) -> None:
    assert keys_of(*change(session, AROUND)).operator != keys_of(session, AROUND).operator


def test_an_operator_is_known_by_its_files_and_not_by_its_place_or_the_rules_of_submissions(
    session: Session, tmp_path: Path
) -> None:
    known = keys_of(session, AROUND)
    again = load(session_in(tmp_path / "other", tmp_path / "cache", target="cuda", output_lifetime="next-call"))
    assert keys_of(again, AROUND) == known
    (again.operator_dir / "beside.py").write_text("x = 1\n")
    assert keys_of(again, AROUND).operator != known.operator
    assert keys_of(again, AROUND).device == known.device


def test_what_was_put_is_taken_elsewhere_with_the_places_that_triton_wrote_down(tmp_path: Path) -> None:
    made, used = filled(tmp_path / "made"), tmp_path / "run" / "cache" / "inductor"
    (made / "__grp__kernel.json").write_text(json.dumps({"child_paths": {"k.cubin": f"{made}/ab/kernel.so"}}))
    kept(tmp_path / "cache").put(made)
    shutil.rmtree(made)
    cache = kept(tmp_path / "cache", writable=False)
    assert cache.take(used)
    group = json.loads((used / "__grp__kernel.json").read_text())
    assert Path(group["child_paths"]["k.cubin"]).read_text() == "code"
    assert cache.notes == []


def test_one_that_may_only_be_read_is_left_as_it_is(tmp_path: Path) -> None:
    cache = kept(tmp_path / "cache", writable=False)
    cache.put(filled(tmp_path / "made"))
    cache.note_of_device({"ceilings": 1})
    assert list((tmp_path / "cache").iterdir()) == []
    assert not cache.take(tmp_path / "used")


def test_what_is_known_of_a_device_is_found_again_for_a_week(tmp_path: Path) -> None:
    cache, file = kept(tmp_path / "cache"), tmp_path / "cache" / "device.json"
    assert cache.known_of_device() is None
    cache.note_of_device({"ceilings": 1})
    assert kept(tmp_path / "cache", "another").known_of_device() == {"ceilings": 1}
    file.chmod(0o666)
    assert cache.known_of_device() is None
    file.chmod(0o600)
    os.utime(file, (0, 0))
    assert cache.known_of_device() is None


def test_what_was_used_last_the_longest_ago_makes_room(tmp_path: Path) -> None:
    size = 1000
    for age, name in enumerate(("new", "old", "used")):
        kept(tmp_path / "cache", name).put(filled(tmp_path / f"made {name}", "x" * size))
        os.utime(tmp_path / "cache" / name, ns=(0, (10 - age) * 10**9))
    assert kept(tmp_path / "cache", "used").has_code  # which is a use
    left_behind = tmp_path / "cache" / ".new-killed"
    left_behind.mkdir()
    os.utime(left_behind, (0, 0))
    for name, age in ((".new-file", 0), (".new-now", int(time.time()))):
        (tmp_path / "cache" / name).touch()
        os.utime(tmp_path / "cache" / name, (age, age))
    kept(tmp_path / "cache", "latest", limit_bytes=3 * size + 500).put(filled(tmp_path / "made", "x" * size))
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == [".new-now", "door", "latest", "new", "used"]


def test_what_is_too_large_is_not_kept(tmp_path: Path) -> None:
    made = filled(tmp_path / "made")
    with open(made / "ab" / "large.so", "wb") as file:
        file.truncate(machine_cache.LARGEST_BYTES)
    cache = kept(tmp_path / "cache")
    cache.put(made)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["door"]
    assert "more than 256 MiB" in cache.notes[0]


def test_judges_that_put_and_take_at_once_see_whole_folders(tmp_path: Path) -> None:
    files = 20

    def work(number: int) -> None:
        made = tmp_path / f"made {number}"
        made.mkdir()
        for index in range(files):
            (made / f"{index}.so").write_text(str(number))
        for turn in range(15):
            kept(tmp_path / "cache").put(made)
            used = tmp_path / f"used {number} {turn}"
            cache = kept(tmp_path / "cache")
            if cache.take(used):
                assert len({path.read_text() for path in used.iterdir()}) == 1
                assert len(list(used.iterdir())) == files
            assert cache.notes == []

    kept(tmp_path / "cache")
    pids = [_forked(lambda number=number: work(number)) for number in range(3)]  # type: ignore[misc]
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == [0, 0, 0]
    assert kept(tmp_path / "cache").take(tmp_path / "at the end")
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["door", "operator"]


def _forked(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return pid
