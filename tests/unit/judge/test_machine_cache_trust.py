"""The machine's cache is used only where nobody but the judge can have written to it."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from caching import ROOT, filled, kept, session_in

from cuda_agent_judge.machine_cache import opened
from cuda_agent_judge.session import load

OTHER = 4321


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
