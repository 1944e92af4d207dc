"""What `doctor` says of this machine."""

from pathlib import Path

import pytest

from cuda_agent.doctor.check import Check, State
from cuda_agent.doctor.machine import disk, gpu, keys, local, nvcc_version, toolkit, torch_cuda
from cuda_agent.sandbox.confinement import Confinement, Found
from cuda_agent.sandbox.gpus import Gpu
from cuda_agent.sandbox.python import SandboxPython

GPUS = [Gpu("0", "GPU-1", "NVIDIA H200", "580.1")]


def python(torch: str, *, cuda: bool = True) -> SandboxPython:
    return SandboxPython(Path("/p"), "3.12.3", torch, cuda)


@pytest.mark.parametrize(
    ("gpus", "torch", "nvcc", "driver", "problems"),
    [
        ([], "2.13.0+cpu", "", "", []),
        (GPUS, "2.13.0+cu130", "13.0", "13.0", []),
        (GPUS, "2.13.0+cu130", "13.2", "13.1", []),
        (GPUS, "2.13.0+cu130", "", "13.0", ["no nvcc"]),
        (GPUS, "2.13.0+cpu", "13.0", "13.0", ["a build for the CPU"]),
        (GPUS, "2.13.0+cu130", "12.8", "13.0", ["nvcc is of CUDA 12.8, torch is built for 13.0"]),
        (GPUS, "2.13.0+cu130", "13.0", "12.4", ["the driver can run CUDA 12.4, torch is built for 13.0"]),
    ],
)
def test_nvcc_torch_and_driver_must_fit_together(
    gpus: list[Gpu], torch: str, nvcc: str, driver: str, problems: list[str]
) -> None:
    found = [check for check in toolkit(gpus, python(torch), nvcc, driver) if check.state == State.PROBLEM]
    assert len(found) == len(problems)
    assert all(words in check.said and check.remedy for words, check in zip(problems, found, strict=True))


def test_a_torch_that_sees_no_gpu_is_a_problem() -> None:
    found = toolkit(GPUS, python("2.13.0+cu130", cuda=False), "13.0", "13.0")
    assert found[-1].state == State.PROBLEM
    assert "CUDA_VISIBLE_DEVICES" in found[-1].remedy


@pytest.mark.parametrize(
    ("gpus", "has_device", "state"),
    [(GPUS, True, State.FINE), ([], False, State.ABSENT), ([], True, State.PROBLEM)],
)
def test_a_gpu_without_a_working_driver_is_a_problem(gpus: list[Gpu], has_device: bool, state: State) -> None:
    assert gpu(gpus, has_device=has_device).state == state


@pytest.mark.parametrize(("version", "cuda"), [("2.11.0+cu130", "13.0"), ("2.10.0+cu128", "12.8"), ("2.13.0+cpu", "")])
def test_torch_s_version_names_its_cuda(version: str, cuda: str) -> None:
    assert torch_cuda(version) == cuda


def test_what_confines_commands_is_said_and_nothing_is_no_problem() -> None:
    confined = Confinement("/usr/bin/bwrap", "/usr/bin/python3", (), (), ())
    assert local(Found(confined, "confined by bwrap")) == Check("local", State.FINE, "confined by bwrap")
    assert local(Found(None, "unconfined: install it")) == Check("local", State.ABSENT, "unconfined: install it")


def test_keys_are_named_and_never_shown() -> None:
    check = keys({"OPENAI_API_KEY": "sk-secret", "GEMINI_API_KEY": ""})
    assert "OPENAI_API_KEY" in check.said
    assert "GEMINI" not in check.said
    assert "secret" not in str(check)
    assert keys({}).state == State.ABSENT


def test_nvcc_is_asked_for_its_version(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "nvcc"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 12.8, V12.8.93'\n")
    program.chmod(0o755)
    assert nvcc_version({"CUDA_HOME": str(tmp_path)}) == "12.8"


def test_the_disk_is_the_one_that_runs_go_to(tmp_path: Path) -> None:
    assert str(tmp_path) in disk(tmp_path).said
