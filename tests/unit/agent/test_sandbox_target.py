import os
from pathlib import Path

import pytest

from cuda_agent.errors import ConfigError
from cuda_agent.sandbox.python import SandboxPython
from cuda_agent.sandbox.target import choose_target

WITHOUT_GPU = SandboxPython(Path("/python3"), "3.11.7", "2.13.0", cuda=False)
WITH_GPU = SandboxPython(Path("/python3"), "3.11.7", "2.13.0", cuda=True, device="NVIDIA H200")
HERE = {"PATH": os.environ["PATH"]}


def program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_without_a_gpu_it_is_cpu_with_the_compiler_that_was_tried() -> None:
    target = choose_target(WITHOUT_GPU, env=HERE)
    assert target.name == "cpu"
    assert target.reason.startswith("torch sees no GPU; C++ is compiled by /")


def test_a_gpu_without_nvcc_is_cpu(tmp_path: Path) -> None:
    program(tmp_path / "bin", "c++", "exit 0")
    target = choose_target(WITH_GPU, env={"PATH": str(tmp_path / "bin")})
    assert (target.name, target.reason.split(";")[0]) == ("cpu", "there is no nvcc")


def test_a_gpu_and_nvcc_are_cuda(tmp_path: Path) -> None:
    program(tmp_path / "bin", "nvcc", "exit 0")
    env = {"PATH": f"{tmp_path / 'bin'}:{HERE['PATH']}"}
    target = choose_target(WITH_GPU, env=env)
    assert (target.name, target.reason) == ("cuda", "torch sees NVIDIA H200 and nvcc is there")
    assert choose_target(WITH_GPU, env=env, asked="cpu").reason.startswith("C++ is compiled by ")


def test_cuda_that_is_asked_for_and_not_ready_is_refused() -> None:
    with pytest.raises(ConfigError, match="the target cuda is not ready: torch sees no GPU; use --target cpu"):
        choose_target(WITHOUT_GPU, env=HERE, asked="cuda")


def test_no_compiler_is_said_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^kernels need a C\+\+ compiler and there is none: install g\+\+"):
        choose_target(WITHOUT_GPU, env={"PATH": str(tmp_path)})


def test_a_compiler_that_does_not_compile_is_passed_over(tmp_path: Path) -> None:
    program(tmp_path / "bin", "c++", "exit 1")
    with pytest.raises(ConfigError, match="cannot compile a small program"):
        choose_target(WITHOUT_GPU, env={"PATH": str(tmp_path / "bin")})
    target = choose_target(WITHOUT_GPU, env={"PATH": f"{tmp_path / 'bin'}:{HERE['PATH']}"})
    assert not target.reason.endswith(f"{tmp_path}/bin/c++")
