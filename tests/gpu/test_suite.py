"""The suite on `cuda`: cheats are refused, and pass where what finds them is missing; honest submissions pass."""

from collections.abc import Iterator

import pytest
from suite import proving
from suite.row import Row
from suite.rows import CHEATS, HONEST, of
from suite.warm import Warm

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    with Warm(tmp_path_factory.mktemp("suite"), "cuda") as found:
        yield found


@pytest.mark.parametrize("row", of("cuda", CHEATS), ids=lambda row: row.name)
def test_a_cheat_is_refused(warm: Warm, row: Row) -> None:
    proving.is_as_expected(warm, row)


@pytest.mark.parametrize("row", of("cuda", HONEST), ids=lambda row: row.name)
def test_an_honest_submission_passes(warm: Warm, row: Row) -> None:
    proving.is_as_expected(warm, row)


@pytest.mark.parametrize("pair", proving.switched("cuda"), ids=proving.named)
def test_a_cheat_passes_where_what_finds_it_is_switched_off(warm: Warm, pair: tuple[Row, str]) -> None:
    proving.is_accepted(warm, *pair)


@pytest.mark.parametrize("pair", proving.doubly_held("cuda"), ids=proving.named)
def test_one_of_the_defences_that_find_a_cheat_is_enough(warm: Warm, pair: tuple[Row, str]) -> None:
    proving.is_still_found(warm, *pair)


@pytest.mark.parametrize("row", proving.fooling("cuda"), ids=lambda row: row.name)
def test_a_cheat_fools_a_checker_without_the_judges_structure(warm: Warm, row: Row) -> None:
    proving.is_fooled(warm, row)


def test_every_cheat_says_what_finds_it_and_has_a_name_of_its_own() -> None:
    assert [row.name for row in of("cuda", CHEATS) if not proving.says_what_finds_it(row, "cuda")] == []
    names = [row.name for row in CHEATS + HONEST]
    assert sorted(set(names)) == sorted(names)
