"""What `doctor` says of Docker, from what a daemon says of itself."""

from typing import Any

import pytest

from cuda_agent.doctor.check import State
from cuda_agent.doctor.docker import checks, image_checks, limits, toolkit, unreachable
from cuda_agent.sandbox.docker.failures import explained
from cuda_agent.sandbox.docker.gpus import Gpu
from cuda_agent.sandbox.docker.image import Image, context_sha256

GPU = [Gpu("0", "GPU-1", "H200", "580")]


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize(
    ("said", "program", "words"),
    [
        ("No such file or directory", None, "install it"),
        ("No such file or directory", "/usr/bin/docker", "systemctl start docker"),
        ("Permission denied: '/var/run/docker.sock'", "/usr/bin/docker", "usermod -aG docker"),
        ("Name or service not known", "/usr/bin/docker", "DOCKER_HOST"),
    ],
)
def test_a_daemon_that_cannot_be_used_comes_with_its_remedy_and_is_a_problem_where_it_is_wanted(
    said: str, program: str | None, words: str, wanted: bool
) -> None:
    error = explained(OSError(said), "unix:///var/run/docker.sock", find=lambda name: program)
    check = unreachable(str(error), wanted=wanted)
    assert "--sandbox" not in check.remedy  # nobody asked for one
    assert check.state == (State.PROBLEM if wanted and program else State.ABSENT)
    assert words in (check.remedy or check.said)


def test_no_daemon_is_one_check_and_no_traceback() -> None:
    found = checks({"DOCKER_HOST": "unix:///nowhere/docker.sock"}, "x")
    assert [check.name for check in found] == ["docker"]


@pytest.mark.parametrize(
    ("info", "words"),
    [
        ({"MemoryLimit": True, "PidsLimit": True, "CpuCfsQuota": True}, []),
        ({"MemoryLimit": False, "PidsLimit": False}, ["memory", "processes"]),
        ({"CpuCfsQuota": False}, ["processor time"]),
    ],
)
def test_limits_that_do_not_hold_are_named(info: dict[str, Any], words: list[str]) -> None:
    found = limits(info)
    assert bool(found) == bool(words)
    assert all(word in found[0].said for word in words)


@pytest.mark.parametrize(
    ("gpus", "info", "state"),
    [
        ([], {}, None),
        (GPU, {"Runtimes": {"runc": {}}}, State.PROBLEM),
        (GPU, {"Runtimes": {"runc": {}, "nvidia": {}}}, State.FINE),
        (GPU, {"DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=0"}]}, State.FINE),
    ],
)
def test_a_missing_nvidia_toolkit_is_a_problem_where_there_is_a_gpu(
    gpus: list[Gpu], info: dict[str, Any], state: State | None
) -> None:
    assert [check.state for check in toolkit(info, gpus)] == ([] if state is None else [state])


def image(*, context: str = "", cuda: str = "", nvcc: str = "") -> Image:
    return Image("id", context or context_sha256(), "recipe", "3.12.3", "2.13.0", cuda, nvcc)


@pytest.mark.parametrize(
    ("found", "gpus", "state", "words"),
    [
        (None, [], State.ABSENT, "not there"),
        (image(), [], State.FINE, "3.12.3"),
        (image(context="old"), [], State.PROBLEM, "another version"),
        (image(), GPU, State.PROBLEM, "for the CPU"),
        (image(cuda="13.0", nvcc="13.0"), GPU, State.FINE, "nvcc 13.0"),
        (image(cuda="13.0", nvcc="12.8"), GPU, State.PROBLEM, "its torch is for CUDA 13.0"),
    ],
)
def test_an_image_that_does_not_fit_is_named(found: Image | None, gpus: list[Gpu], state: State, words: str) -> None:
    check = image_checks(found, "tag", gpus)[0]
    assert check.state == state
    assert words in check.said
    assert ("image build" in check.remedy) == (state != State.FINE)
