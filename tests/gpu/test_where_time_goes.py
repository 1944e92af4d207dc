"""What a profile tells of kernels on a GPU, and how near a baseline that only copies comes to the floor."""

import pytest
from conftest import Judge
from judging import model_new

pytestmark = pytest.mark.gpu

CHAIN = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x * 2) + x
def get_inputs():
    return [torch.randn(64, 1024)]
"""
LARGE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [torch.randn(16384, 8192)]
"""
TWO_KERNELS = {
    "two.cu": """
#include <cuda_runtime.h>
__global__ void twice_tanh(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = tanhf(2 * x[i]);
}
template <int N> __global__ void add_to(const float* x, float* y, int n) {
  __shared__ float pad[N];
  pad[threadIdx.x] = x[0];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += x[i] + 0 * pad[threadIdx.x];
}
extern "C" void launch(const float* x, float* y, int n, cudaStream_t stream) {
  twice_tanh<<<n / 1024, 1024, 0, stream>>>(x, y, n);
  add_to<8000><<<n / 256, 256, 0, stream>>>(x, y, n);
}
""",
    "two_binding.cpp": """
#include "binding_registry.h"
extern "C" void launch(const float* x, float* y, int n, cudaStream_t stream);
Tensor go(const Tensor& x) {
  Tensor y = empty_like(x);
  launch(in<float>(x), out<float>(y), int(x.numel()), current_stream(x));
  check_launch("two");
  return y;
}
REGISTER_KERNEL(go, "(Tensor x) -> Tensor");
""",
}


def test_each_kernel_is_told_with_its_launch_and_what_the_compiler_made_of_it(judge: Judge) -> None:
    go = model_new("return cuda_extension.go(x)", head="import cuda_extension")
    answer = judge(go, operator=CHAIN, kernels=TWO_KERNELS, command="profile")
    found = answer.report.performance
    assert found is not None, answer.report.notes
    run = found["submission"]
    assert run["launches"] == 2
    assert 0 < run["busy_us"] < run["span_us"] < 100  # what holds the device up before a call is not in it
    rows = {row["name"].removeprefix("void ").partition("(")[0]: row for row in run["rows"]}
    assert set(rows) == {"twice_tanh", "add_to<8000>"}
    padded = rows["add_to<8000>"]
    assert (padded["grid"], padded["block"]) == ([256, 1, 1], [256, 1, 1])
    assert padded["shared_bytes"] >= 32000
    assert padded["limiter"] == "shared memory"
    assert all(row["registers"] > 0 and row["spill_bytes"] == 0 for row in rows.values())
    assert set(answer.report.peak_memory_bytes) == {"eager", "submission"}


def test_a_baseline_that_only_copies_comes_near_a_floor_that_is_certain(judge: Judge) -> None:
    report = judge("", operator=LARGE, kernels={}, command="profile", options=("--baseline",)).report
    found = report.performance
    assert found is not None, report.notes
    assert found["floor"]["certain"]
    assert found["floor"]["large"]
    assert 0.8 < found["rates"]["compile"]["memory_share"] < 1.1
    assert [row["name"] for row in found["operations"]] == ["relu"]
    assert found["operations"][0]["us"] < 2e3 * report.latency_ms["eager"].median
