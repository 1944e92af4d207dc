from dataclasses import dataclass
from pathlib import Path

import pytest

from cuda_agent.batch.resources import chosen_gpus, default_workers, no_room
from cuda_agent.errors import ConfigError
from cuda_agent.sandbox.gpus import Gpu

GPUS = [Gpu(str(n), f"GPU-{letter * 8}", "a card", "1") for n, letter in enumerate("abcd")]
A, B, C, D = (gpu.uuid for gpu in GPUS)


@pytest.mark.parametrize(
    ("asked", "environ", "wanted"),
    [
        (None, {}, [A, B, C, D]),
        ("all", {"CUDA_VISIBLE_DEVICES": "2,0"}, [C, A]),
        ("0,2", {}, [A, C]),
        ("2, GPU-bbbb ,2", {}, [C, B]),
        ("MIG-1234", {}, ["MIG-1234"]),
    ],
)
def test_gpus_are_named_by_number_or_uuid(asked: str | None, environ: dict[str, str], wanted: list[str]) -> None:
    assert chosen_gpus(asked, environ, found=GPUS) == wanted


@pytest.mark.parametrize("asked", ["7", "0,nonsense", ",", "GPU-"])
def test_a_gpu_that_is_not_there_is_refused(asked: str) -> None:
    with pytest.raises(ConfigError):
        chosen_gpus(asked, {}, found=GPUS)


def test_there_is_always_room_for_one_run() -> None:
    assert default_workers(0, cuda=True) >= 1
    assert default_workers(0, cuda=False) == 2


@dataclass
class Usage:
    free: int


def test_a_disk_that_is_all_but_full_is_named(tmp_path: Path) -> None:
    assert no_room(tmp_path, usage=lambda path: Usage(10**12)) == ""
    said = no_room(tmp_path, usage=lambda path: Usage(3_000_000 if path == str(tmp_path) else 10**12))
    assert said == f"The disk of {str(tmp_path)!r} has only 3 MB left; free some space."
    assert no_room(tmp_path / "absent") == no_room(tmp_path)
