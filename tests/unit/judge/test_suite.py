"""The suite on `cpu`: cheats are refused, and pass where what finds them is missing; honest submissions pass."""

import os
import tempfile
from collections.abc import Iterator

import pytest
from judging import model_new
from suite import proving
from suite.row import Row
from suite.rows import CHEATS, HONEST, of
from suite.warm import Warm


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    with Warm(tmp_path_factory.mktemp("suite"), "cpu") as found:
        yield found


@pytest.mark.parametrize("row", of("cpu", CHEATS), ids=lambda row: row.name)
def test_a_cheat_is_refused(warm: Warm, row: Row) -> None:
    proving.is_as_expected(warm, row)


@pytest.mark.parametrize("row", of("cpu", HONEST), ids=lambda row: row.name)
def test_an_honest_submission_passes(warm: Warm, row: Row) -> None:
    proving.is_as_expected(warm, row)


@pytest.mark.parametrize("pair", proving.switched("cpu"), ids=proving.named)
def test_a_cheat_passes_where_what_finds_it_is_switched_off(warm: Warm, pair: tuple[Row, str]) -> None:
    proving.is_accepted(warm, *pair)


@pytest.mark.parametrize("pair", proving.doubly_held("cpu"), ids=proving.named)
def test_one_of_the_defences_that_find_a_cheat_is_enough(warm: Warm, pair: tuple[Row, str]) -> None:
    proving.is_still_found(warm, *pair)


@pytest.mark.parametrize("row", proving.fooling("cpu"), ids=lambda row: row.name)
def test_a_cheat_fools_a_checker_without_the_judges_structure(warm: Warm, row: Row) -> None:
    proving.is_fooled(warm, row)


def test_a_look_that_does_not_end_is_ended(warm: Warm) -> None:
    looked = warm.look(Row("hangs", "", model_new("while True: pass")), limit_s=1)
    assert not looked.ok
    proving.is_fooled(warm, proving.fooling("cpu")[0])  # the next one is as ever


def test_what_a_row_left_in_the_workspace_is_gone_for_the_next(warm: Warm) -> None:
    leaves = "import os\nhere = os.path.dirname(os.path.abspath(__file__))\nplace = os.path.join(here, 'left')\n"
    made = "there = os.path.exists(place)\nos.makedirs(place, exist_ok=True)"
    row = Row("leaves", "", model_new("assert not there\nreturn torch.relu(x) * 2", head=leaves + made))
    assert [warm.look(row).ok for _ in range(2)] == [True, True]


def test_where_a_cheat_finds_temporary_files_go_is_not_the_testers_own(warm: Warm) -> None:
    head = "import os, tempfile"
    told = warm.look(Row("tells", "", model_new("print(tempfile.gettempdir())\nreturn x", head=head))).output
    assert os.path.realpath(tempfile.gettempdir()) not in [os.path.realpath(line) for line in told.splitlines()]
    assert "suite-" in told


def test_every_cheat_says_what_finds_it_and_has_a_name_of_its_own() -> None:
    assert [row.name for row in of("cpu", CHEATS) if not proving.says_what_finds_it(row, "cpu")] == []
    names = [row.name for row in CHEATS + HONEST]
    assert sorted(set(names)) == sorted(names)
