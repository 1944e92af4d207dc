"""What a run in a container is for."""

from contextlib import closing
from pathlib import Path

import pytest
from docker import APIClient

from cuda_agent.config import Settings
from cuda_agent.errors import ConfigError
from cuda_agent.runs.in_docker import place_in
from cuda_agent.runs.place import Place
from cuda_agent.sandbox.docker.container import Spec, host_config
from cuda_agent.sandbox.docker.image import Image
from cuda_agent.sandbox.docker.layout import Limits
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
    place = place_in(image, gpu, settings, LOCKS, asked=True, cache="a-volume")
    assert isinstance(place, Place)
    assert (place.kind, place.target, place.gpu, place.model_shares_uid) == ("docker", target, handed, False)
    assert place.described.get("gpu", "") == handed
    assert (f"GPU 3, {handed}" in place.choices[1]) is bool(handed)
    assert (place.cache, place.cache_inside(model=True)) == ("a-volume", "/var/lib/cuda-agent/kept/judge")
    assert (place.locks, place.locks_inside) == ("/run/lock/cuda-agent", "/var/lib/cuda-agent/locks")


def test_a_container_gets_the_locks_and_the_volume_of_the_cache_and_nothing_else_of_the_machine() -> None:
    with closing(APIClient("unix:///nowhere", version="1.41")) as api:
        bare = host_config(api, Spec("image", Limits(1 << 30, 2.0)))
        both = host_config(api, Spec("image", Limits(1 << 30, 2.0), locks="/run/lock/x", cache="a-volume"))
    assert bare.get("Binds") is None
    assert both["Binds"] == ["/run/lock/x:/var/lib/cuda-agent/locks:rw", "a-volume:/var/lib/cuda-agent/kept:rw"]


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
