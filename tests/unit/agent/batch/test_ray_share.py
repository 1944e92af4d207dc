"""How many runs the machines of a cluster have room for, and whether one of them sees the batch's folder."""

from dataclasses import replace
from pathlib import Path

import pytest

from cuda_agent.batch.ray_engine import Share, Shared, share_of, unshared
from cuda_agent.batch.running import Halt

EIGHT = {"CPU": 128.0, "GPU": 8.0}
ONE = {"CPU": 16.0, "GPU": 1.0}
NONE = {"CPU": 16.0}


@pytest.mark.parametrize(
    ("nodes", "workers", "cuda", "room"),
    [
        ([EIGHT], None, True, [32]),
        ([EIGHT, ONE], None, True, [32, 4]),
        ([EIGHT, ONE, NONE], 9, True, [8, 1, 0]),
        ([EIGHT, ONE], 20, True, [24, 3]),
        ([EIGHT], 3, True, [8]),
        ([NONE, NONE], None, False, [2, 2]),
        ([NONE, NONE], 8, False, [4, 4]),
        ([NONE], 100, False, [16]),
        ([], None, True, []),
        ([], None, False, []),
        ([{"CPU": 2.0, "GPU": 1.0}], None, True, [2]),
    ],
)
def test_runs_spread_over_all_gpus_and_machines(
    nodes: list[dict[str, float]], workers: int | None, cuda: bool, room: list[int]
) -> None:
    share = share_of(nodes, workers, cuda=cuda)
    assert [share.fits(node) for node in nodes] == room
    assert (share.gpus > 0) is cuda


def test_what_is_left_of_two_gpus_makes_no_third_place() -> None:
    assert Share(gpus=0.6, cpus=1.0).fits({"CPU": 8.0, "GPU": 2.0}) == 2


@pytest.fixture
def shared(tmp_path: Path) -> Shared:
    """A folder with the batch's mark in it."""
    (tmp_path / ".seen-by-all-machines").write_text("mark")
    return Shared(False, str(tmp_path), str(tmp_path), "python", "mark", seen_s=0.0)


def going_on() -> Halt:
    return Halt.NO


def test_a_machine_that_sees_the_mark_sees_all(shared: Shared) -> None:
    assert unshared(shared, going_on) == ""


def test_a_folder_that_is_not_there_or_another_one_is_named(shared: Shared) -> None:
    assert unshared(replace(shared, cwd="/nowhere"), going_on) == "'/nowhere' is not there"
    assert "is another folder than the batch's" in unshared(replace(shared, mark="another"), going_on)


def test_whoever_waits_for_the_mark_hears_of_an_interrupt(shared: Shared) -> None:
    asked: list[Halt] = []

    def interrupted() -> Halt:
        asked.append(Halt.IN_ORDER if asked else Halt.NO)
        return asked[-1]

    assert unshared(replace(shared, mark="later", seen_s=1e6), interrupted)
    assert asked == [Halt.NO, Halt.IN_ORDER]
