"""What is kept from run to run: found again by what it depends on, taken only where nobody else can have written."""

import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from judging import SCALE, Answer, invoke, model_new

from cuda_agent_judge import machine_cache
from cuda_agent_judge.cache_key import Keys, Surroundings, keys_of
from cuda_agent_judge.machine_cache import MachineCache, opened
from cuda_agent_judge.session import Session, load

AROUND = Surroundings("NVIDIA H200", 16, "2.11.0", "3.6.0", "3.12.3", "g++ 13")
ROOT = os.geteuid() == 0
OTHER = 4321


def session_in(folder: Path, cache: Path, operator: str = SCALE, **settings: object) -> Path:
    (folder / "operator").mkdir(parents=True)
    (folder / "operator" / "model.py").write_text(operator)
    (folder / "session.json").write_text(json.dumps({"cache": str(cache), "libraries": "any", **settings}))
    return folder


def filled(folder: Path, text: str = "code") -> Path:
    """A folder as Inductor leaves it."""
    (folder / "ab").mkdir(parents=True)
    (folder / "ab" / "kernel.so").write_text(text)
    return folder


def kept(path: Path, name: str = "operator", *, writable: bool = True, limit_bytes: int = 1 << 20) -> MachineCache:
    path.mkdir(mode=0o700, exist_ok=True)
    return MachineCache(path, Keys(name, "device"), writable, limit_bytes)


# What it depends on

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


# Who may have written there


def _open_to_all(cache: Path) -> None:
    cache.mkdir()
    cache.chmod(0o777)


def _readable(cache: Path) -> None:
    cache.mkdir()
    cache.chmod(0o755)


def _a_link(cache: Path) -> None:
    (cache.parent / "real").mkdir(mode=0o700)
    cache.symlink_to(cache.parent / "real")


def _a_file(cache: Path) -> None:
    cache.write_text("")


def _in_an_open_folder(cache: Path) -> None:
    cache.mkdir(mode=0o700)
    cache.parent.chmod(0o777)


def _foreign(cache: Path) -> None:
    cache.mkdir(mode=0o700)
    os.chown(cache, OTHER, OTHER)


def _in_a_foreign_folder(cache: Path) -> None:
    cache.mkdir(mode=0o700)
    os.chown(cache.parent, OTHER, OTHER)


PLANTED = [_open_to_all, _readable, _a_link, _a_file, _in_an_open_folder]
ONLY_ROOT_PLANTS = [_foreign, _in_a_foreign_folder]


@pytest.mark.parametrize("plant", [*PLANTED, *(ONLY_ROOT_PLANTS if ROOT else [])])
def test_a_cache_that_others_can_have_written_to_is_not_used_and_a_note_says_so(
    tmp_path: Path, plant: Callable[[Path], None]
) -> None:
    cache = tmp_path / "home" / "cache"
    cache.parent.mkdir()
    plant(cache)
    found, note = opened(load(session_in(tmp_path / "session", cache)), alone=True)
    assert found is None
    assert note.startswith("the machine's cache is not used: ")
    assert str(cache.parent) in note


def test_one_that_is_missing_is_made_for_this_user_alone(tmp_path: Path) -> None:
    found, note = opened(load(session_in(tmp_path / "session", tmp_path / "cache")), alone=True)
    assert (found is not None, note) == (True, "")
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700


def test_it_is_not_used_where_a_models_commands_run_as_the_judge(tmp_path: Path) -> None:
    found, note = opened(load(session_in(tmp_path / "session", tmp_path / "cache", model_shares_uid=True)))
    assert found is None
    assert "could write to it" in note


def _foreign_file(code: Path) -> None:
    os.chown(code / "ab" / "kernel.so", OTHER, OTHER)


def _writable_file(code: Path) -> None:
    (code / "ab" / "kernel.so").chmod(0o666)


def _writable_folder(code: Path) -> None:
    (code / "ab").chmod(0o777)


def _linked_file(code: Path) -> None:
    (code / "ab" / "other.so").symlink_to("/etc/passwd")


def _linked_folder(code: Path) -> None:
    (code / "cd").symlink_to(code / "ab")


def _open_folder_of_the_operator(code: Path) -> None:
    code.parent.chmod(0o777)


INSIDE = [_writable_file, _writable_folder, _linked_file, _linked_folder, _open_folder_of_the_operator]


@pytest.mark.parametrize("plant", [*INSIDE, *([_foreign_file] if ROOT else [])])
def test_what_was_planted_in_a_folder_keeps_all_of_it_from_being_used(
    tmp_path: Path, plant: Callable[[Path], None]
) -> None:
    cache = kept(tmp_path / "cache")
    cache.put(filled(tmp_path / "made"))
    plant(tmp_path / "cache" / "operator" / "inductor")
    assert not cache.take(tmp_path / "session" / "inductor")
    assert not (tmp_path / "session" / "inductor").exists()
    assert len(cache.notes) == 1


# How it is kept


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
    kept(tmp_path / "cache", "latest", limit_bytes=3 * size + 500).put(filled(tmp_path / "made", "x" * size))
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["door", "latest", "new", "used"]


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


# The judge with it


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
