"""What a run in a container is for."""

from pathlib import Path

import pytest

from cuda_agent.config import Settings
from cuda_agent.errors import ConfigError
from cuda_agent.runs.in_docker import place_in
from cuda_agent.runs.place import Place
from cuda_agent.sandbox.docker.image import Image
from cuda_agent.sandbox.gpus import Gpu
from cuda_agent.sandbox.locks import Locks

CUDA = Image("id", "c", "r", "3.12", "2.13", "13.0", "13.0")
CPU = Image("id", "c", "r", "3.12", "2.13", "", "")
GPU = Gpu("3", "GPU-1", "H200", "580")
LOCKS = Locks("/run/lock/cuda-agent")


@pytest.mark.parametrize(
    ("image", "gpu", "asked_target", "target", "handed"),
    [
        (CUDA, GPU, "auto", "cuda", "GPU-1"),
        (CUDA, GPU, "cpu", "cpu", ""),
        (CUDA, None, "auto", "cpu", ""),
        (CPU, GPU, "auto", "cpu", ""),
        (CUDA, GPU, "cuda", "cuda", "GPU-1"),
    ],
)
def test_the_target_is_what_image_and_machine_have(
    image: Image, gpu: Gpu | None, asked_target: str, target: str, handed: str
) -> None:
    settings = Settings(operator=Path("op.py"), target=asked_target)  # type: ignore[arg-type]
    place = place_in(image, gpu, settings, LOCKS, asked=True)
    assert isinstance(place, Place)
    assert (place.kind, place.target, place.gpu, place.model_shares_uid) == ("docker", target, handed, False)
    assert place.described.get("gpu", "") == handed
    assert (f"GPU 3, {handed}" in place.choices[1]) is bool(handed)
    assert (place.locks, place.locks_inside) == ("/run/lock/cuda-agent", "/var/lib/cuda-agent/locks")


@pytest.mark.parametrize(("image", "gpu", "words"), [(CPU, GPU, "for the CPU"), (CUDA, None, "no GPU")])
def test_a_target_that_it_lacks_is_refused_where_docker_was_asked_for_and_else_left_to_local(
    image: Image, gpu: Gpu | None, words: str
) -> None:
    settings = Settings(operator=Path("op.py"), target="cuda")
    with pytest.raises(ConfigError, match=words):
        place_in(image, gpu, settings, LOCKS, asked=True)
    left = place_in(image, gpu, settings, LOCKS, asked=False)
    assert isinstance(left, str)
    assert words in left
