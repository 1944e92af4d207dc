"""Operators that ask something of the GPU, and submissions that build their kernels themselves."""

import pytest
from conftest import Judge

pytestmark = pytest.mark.gpu

RELU = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x.relu()
def get_inputs():
    return [torch.{inputs}]
"""

TRITON = """
import torch
import triton
import triton.language as tl

@triton.autotune([triton.Config({"BLOCK": size}) for size in (1024, 4096)], key=["count"])
@triton.jit
def positive_part(source, target, count, BLOCK: tl.constexpr):
    places = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(source + places, places < count)
    tl.store(target + places, tl.maximum(values, 0.0), places < count)

class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        positive_part[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
        return y
"""

INLINE = '''
import torch
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
__global__ void positive_part(const float* from, float* to, long count) {
  long i = blockIdx.x * static_cast<long>(blockDim.x) + threadIdx.x;
  if (i < count) to[i] = fmaxf(from[i], 0.f);
}
torch::Tensor relu(torch::Tensor x) {
  auto y = torch::empty_like(x);
  positive_part<<<(x.numel() + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  return y;
}
"""
module = load_inline("inline_relu", "torch::Tensor relu(torch::Tensor x);", SOURCE, functions=["relu"])

class ModelNew(torch.nn.Module):
    def forward(self, x):
        return module.relu(x)
'''

GRAPH = """
import torch
class ModelNew(torch.nn.Module):
    def forward(self, x):
        own = x.clone()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch.relu(own)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = torch.empty_like(own)
            y.copy_(torch.relu(own))
        graph.replay()
        return y.clone()
"""
COMPILED = """
import torch
class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.relu = torch.compile(torch.relu)
    def forward(self, x):
        return self.relu(x)
"""

OWN = """
import torch
import cuda_extension
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return cuda_extension.relu(x)
"""
KERNEL = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
__global__ void positive_part(const float* from, float* to, long count) {
  long i = blockIdx.x * static_cast<long>(blockDim.x) + threadIdx.x;
  if (i < count) to[i] = fmaxf(from[i], 0.f);
}
torch::Tensor relu(torch::Tensor x) {
  torch::Tensor y = torch::empty_like(x);
  positive_part<<<(x.numel() + 255) / 256, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("relu", &relu); }
"""


@pytest.mark.parametrize(
    "inputs",
    [
        pytest.param("randn(64, 64, device='cuda')", id="made on the GPU"),
        pytest.param("rand(49152, 49152)", id="9.7 GB"),
    ],
)
def test_inputs_of_the_gpu_are_judged(judge: Judge, inputs: str) -> None:
    answer = judge(OWN, operator=RELU.format(inputs=inputs), kernels={"relu.cu": KERNEL}, call_timeout_s=60)
    assert (answer.report.status, answer.code) == ("correct", 0), answer.report


@pytest.mark.parametrize("text", [pytest.param(TRITON, id="triton"), pytest.param(INLINE, id="load_inline")])
def test_a_single_file_is_judged(judge: Judge, text: str) -> None:
    operator = RELU.format(inputs="randn(2048, 1024)")
    answer = judge(text, operator=operator, kernels={}, command="verdict", call_timeout_s=60)
    assert answer.report.status in ("win", "tie", "slower"), answer.report


@pytest.mark.parametrize("text", [pytest.param(GRAPH, id="CUDA graph"), pytest.param(COMPILED, id="torch.compile")])
def test_guard_bands_leave_graphs_and_compiled_code_alone(judge: Judge, text: str) -> None:
    operator = RELU.format(inputs="randn(2048, 1024)")
    answer = judge(text, operator=operator, kernels={}, libraries="any", call_timeout_s=120)
    assert (answer.report.status, answer.code) == ("correct", 0), answer.report
    assert not any("guard bands" in note for note in answer.report.notes), answer.report.notes
