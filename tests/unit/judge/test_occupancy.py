"""Theoretical occupancy, held against rows of NVIDIA's occupancy calculator."""

import pytest

from cuda_agent_judge.occupancy import occupancy

ROWS = [
    # sm, threads, registers, shared bytes of a block: blocks on a multiprocessor, what allows no more
    ("70", 256, 32, 0, 8, "warps"),
    ("70", 32, 16, 0, 32, "blocks"),
    ("70", 96, 64, 0, 10, "registers"),
    ("70", 128, 32, 49152, 2, "shared memory"),
    ("75", 1024, 32, 0, 1, "warps"),
    ("75", 32, 16, 0, 16, "blocks"),
    ("80", 256, 40, 0, 6, "registers"),
    ("80", 128, 32, 16384, 9, "shared memory"),
    ("80", 512, 168, 0, 0, "registers"),
    ("86", 1024, 32, 0, 1, "warps"),
    ("86", 128, 40, 0, 12, "warps"),
    ("86", 256, 32, 40000, 2, "shared memory"),
    ("89", 64, 16, 0, 24, "warps"),
    ("89", 32, 16, 0, 24, "blocks"),
    ("90", 1024, 33, 0, 1, "registers"),
    ("90", 256, 32, 40000, 5, "shared memory"),
    ("90a", 128, 33, 4096, 12, "registers"),
    ("100a", 384, 72, 0, 2, "registers"),
    ("120a", 256, 128, 0, 2, "registers"),
]


@pytest.mark.parametrize(("sm", "threads", "registers", "shared", "blocks", "limiter"), ROWS)
def test_as_many_blocks_fit_as_the_calculator_says(
    sm: str, threads: int, registers: int, shared: int, blocks: int, limiter: str
) -> None:
    found = occupancy(sm, threads=threads, registers=registers, shared_bytes=shared)
    assert found is not None
    assert (found.blocks, found.limiter) == (blocks, limiter)


@pytest.mark.parametrize(("sm", "threads", "share"), [("90", 1024, 1.0), ("86", 1024, 2 / 3), ("90", 96, 0.984375)])
def test_the_share_is_that_of_the_warps(sm: str, threads: int, share: float) -> None:
    found = occupancy(sm, threads=threads, registers=16, shared_bytes=0)
    assert found is not None
    assert found.share == pytest.approx(share)


@pytest.mark.parametrize(("sm", "threads"), [("61", 128), ("", 128), ("190", 128), ("90", 0)])
def test_of_an_unknown_architecture_or_no_block_nothing_is_said(sm: str, threads: int) -> None:
    assert occupancy(sm, threads=threads, registers=32, shared_bytes=0) is None
