"""Finding compilers and the GPU's architecture."""

import re
import shutil
from pathlib import Path

import pytest

from cuda_agent_judge.build import build
from cuda_agent_judge.toolchain import ToolchainFault, compiler_versions, find_toolchain, gpu_arch

KERNEL = """
#include <cstdint>
#include <cuda_runtime.h>
__global__ void scale(const float* x, float* y, int64_t n, float f) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < n) y[i] = f * x[i];
}
extern "C" void launch_scale(const float* x, float* y, int64_t n, float f, cudaStream_t stream) {
  scale<<<(n + 255) / 256, 256, 0, stream>>>(x, y, n, f);
}
"""
BINDING = """
#include "../binding_registry.h"
extern "C" void launch_scale(const float* x, float* y, int64_t n, float f, cudaStream_t stream);
Tensor scale(const Tensor& x, double factor) {
  Tensor y = empty_like(x);
  launch_scale(in<float>(x), out<float>(y), x.numel(), static_cast<float>(factor), current_stream(x));
  check_launch("scale");
  return y;
}
REGISTER_KERNEL(scale, "(Tensor x, float factor) -> Tensor");
"""


def program(folder: Path, name: str, script: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)
    return path


@pytest.fixture
def only_these(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH, with the real g++ and sh in it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("g++", "sh"):
        real = shutil.which(name)
        assert real is not None
        (folder / name).symlink_to(real)
    monkeypatch.setenv("PATH", str(folder))
    for name in ("CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    return folder


def test_compilers_are_named_with_their_versions(only_these: Path) -> None:
    assert re.fullmatch(r"g\+\+ \d+\.[\d.]+", compiler_versions("cpu"))
    program(only_these, "nvcc", "echo 'Cuda compilation tools, release 13.0, V13.0.48'\n")
    assert compiler_versions("cuda").endswith(", nvcc 13.0.48")
    (only_these / "g++").unlink()
    assert compiler_versions("cpu") == ""


@pytest.mark.parametrize(
    ("told", "arch"), [("9.0", "90a"), ("8.6", "86"), ("10.0", "100a"), ("12.0", "120a"), ("7.5\n9.0", "75")]
)
def test_the_architecture_is_the_gpu_s(only_these: Path, told: str, arch: str) -> None:
    program(only_these, "nvidia-smi", f"echo '{told}'\n")
    assert gpu_arch() == arch


def test_the_visible_gpu_is_asked(only_these: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(only_these, "nvidia-smi", 'case "$*" in *--id=1*) echo 9.0;; *) echo 8.0;; esac\n')
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")
    assert gpu_arch() == "90a"


@pytest.mark.parametrize("script", ["echo 'No devices were found'; exit 6\n", "echo '[N/A]'\n", ""])
def test_no_gpu_is_said_in_a_sentence(only_these: Path, script: str) -> None:
    program(only_these, "nvidia-smi", script)
    with pytest.raises(ToolchainFault, match="no GPU can be seen"):
        gpu_arch()


def test_the_toolkit_is_found_through_a_wrapper(only_these: Path, tmp_path: Path) -> None:
    home = tmp_path / "toolkit"
    (home / "include").mkdir(parents=True)
    (home / "include/cuda_runtime.h").write_text("")
    program(only_these, "nvcc", f"echo '#$ TOP={home}/bin/..' >&2\n")
    cuda = find_toolchain("cuda", "stable", arch="90a").cuda
    assert cuda is not None
    assert cuda.home == home


def test_vendor_libraries_are_linked_where_they_are_installed(only_these: Path, tmp_path: Path) -> None:
    for name in ("include/cuda_runtime.h", "lib64/libcublas.so"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    program(only_these, "nvcc", "")  # only_these is tmp_path / "bin", so tmp_path is the toolkit
    command = find_toolchain("cuda", "stable", arch="90a").link_command([], Path("x.so"), "stable")
    assert command[command.index("-Wl,--as-needed") + 1 :] == ["-lcublas", "-o", "x.so"]


def test_a_toolkit_without_headers_is_said(only_these: Path) -> None:
    program(only_these, "nvcc", "exit 1\n")
    with pytest.raises(ToolchainFault, match=r"no cuda_runtime\.h"):
        find_toolchain("cuda", "stable", arch="90a")


def test_a_cuda_submission_builds_where_nvcc_is(tmp_path: Path) -> None:
    (tmp_path / "ws/kernels").mkdir(parents=True)
    (tmp_path / "ws/kernels/scale.cu").write_text(KERNEL)
    (tmp_path / "ws/kernels/scale_binding.cpp").write_text(BINDING)
    result = build(tmp_path / "ws", tmp_path / "out", target="cuda", arch="90a")
    if shutil.which("nvcc") or Path("/usr/local/cuda/bin/nvcc").exists():
        assert result.ok, result.log
        assert "registers" in result.log
    else:
        assert "there is no nvcc in the sandbox" in result.reason
