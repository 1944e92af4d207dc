"""The table that compares a batch on one GPU with the same one on two."""

from pathlib import Path

from bench.several_gpus import Batch, carry_out, other_classes, throughput
from tests.unit.agent.batch.rows import row

from cuda_agent.batch.results import Row


def carried_out(name: str, gpu: str, begin: float, end: float, status: str = "win", **held: float) -> Row:
    return row(name, 1.2, status=status, gpu=gpu, spans=((begin, end),), held=held)


ONE = [
    carried_out("a", "GPU-1", 0, 60, device_s=30.0, device_wait_s=1.0),
    carried_out("b", "GPU-1", 60, 120, "tie", device_s=42.0),
]
TWO = [
    carried_out("a", "GPU-1", 1000, 1060, device_s=30.0),
    carried_out("b", "GPU-2", 1000, 1050, "tie", device_s=42.0),
]


def test_each_gpu_has_its_own_share_of_the_time() -> None:
    assert throughput([(1, ONE), (2, TWO)])[2:] == [
        "| 1 | 2 | 2:00 min | 1.00 | 1.00 | 60% | 1 s | 1 tie, 1 win |",
        "| 2 | 2 | 1:00 min | 2.00 | 2.00 | 50%, 70% | 0 s | 1 tie, 1 win |",
    ]


def test_verdicts_of_another_class_are_named() -> None:
    assert other_classes(ONE, TWO) == []
    slower = carried_out("b", "GPU-2", 0, 1, "slower")
    assert other_classes(ONE, [TWO[0], slower]) == ["b (tie, then slower)"]


class Asking(Batch):
    """Ends well where the program is told to keep nothing."""

    @property
    def command(self) -> list[str]:
        return ["sh", "-c", 'test "$CUDA_AGENT_CACHE" = none']


def test_no_batch_finds_what_an_earlier_one_compiled() -> None:
    assert carry_out(Asking("", Path(), (), (), 1)) == 0
