"""How many runs the machines of a cluster have room for."""

import pytest

from cuda_agent.batch.ray_engine import Share, share_of

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
