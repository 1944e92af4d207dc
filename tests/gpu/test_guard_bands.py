"""Kernels for y = relu(x) that write beyond what is theirs, where nothing breaks by it: guard bands find them."""

import pytest
from conftest import Judge
from test_faulty_kernels import operator, submission

pytestmark = pytest.mark.gpu

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

using torch::Tensor;
template <bool bounded>
__global__ void by_tiles(const float* from, float* to, long rows, long columns) {
  const long row = blockIdx.y * 16L + threadIdx.y, column = blockIdx.x * 16L + threadIdx.x;
  if (column < columns && (!bounded || row < rows)) {
    to[row * columns + column] = row < rows ? fmaxf(from[row * columns + column], 0.f) : 0.f;
  }
}
template <bool bounded>
static void tiles(const Tensor& x, const Tensor& y) {
  const dim3 grid((x.size(1) + 15) / 16, (x.size(0) + 15) / 16);
  by_tiles<bounded><<<grid, dim3(16, 16)>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1));
}
Tensor within(Tensor x) { Tensor y = torch::empty_like(x); tiles<true>(x, y); return y; }
Tensor beyond(Tensor x) { Tensor y = torch::empty_like(x); tiles<false>(x, y); return y; }
Tensor beyond_scratch(Tensor x) {
  Tensor scratch = torch::empty_like(x), y = torch::empty_like(x);
  tiles<false>(x, scratch);
  tiles<true>(scratch, y);
  return y;
}
Tensor before(Tensor x) {
  Tensor first = torch::empty({250}, x.options()), second = torch::empty_like(first), third = torch::empty_like(first);
  cudaMemsetAsync(third.data_ptr<float>() - 2, 0, 8, nullptr);
  return within(x);
}
Tensor beyond_input(Tensor x) {
  Tensor y = within(x);
  cudaMemsetAsync(x.data_ptr<float>() + x.numel(), 0, 4, nullptr);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("within", &within);
  m.def("beyond", &beyond);
  m.def("beyond_scratch", &beyond_scratch);
  m.def("before", &before);
  m.def("beyond_input", &beyond_input);
}
"""
KERNELS = {"relu.cu": SOURCE}

# What lies out of bounds is nobody's: the allocator leaves 98 KiB free behind these 12 MB, and 24 bytes behind 1000.
ODD = "6241, 500"
TENSOR = "of shape [6241, 500] float32, up to"
OUT_OF_BOUNDS = {
    "beyond": f"30000 bytes behind the end of the output, {TENSOR} 30000 bytes past it",
    "beyond_scratch": f"30000 bytes behind the end of a tensor that it allocated, {TENSOR} 30000 bytes past it",
    "beyond_input": f"4 bytes behind the end of input 0, {TENSOR} 4 bytes past it",
    "before": "8 bytes before the start of a tensor that it allocated, of shape [250] float32, up to 8 bytes before it",
}


@pytest.mark.parametrize("libraries", ["vendor", "any"])
@pytest.mark.parametrize("function", OUT_OF_BOUNDS)
def test_a_kernel_that_writes_out_of_bounds_is_refused(judge: Judge, function: str, libraries: str) -> None:
    answer = judge(submission(function), operator=operator(ODD), kernels=KERNELS, libraries=libraries)
    assert (answer.report.status, answer.code) == ("incorrect", 1), answer.report
    assert f"forward wrote {OUT_OF_BOUNDS[function]}; check " in answer.report.reason


@pytest.mark.parametrize("function", OUT_OF_BOUNDS)
def test_without_guard_bands_nothing_shows_that_a_kernel_writes_out_of_bounds(judge: Judge, function: str) -> None:
    off = {"red_zones": False}
    answer = judge(submission(function), operator=operator(ODD), kernels=KERNELS, defences=off)
    assert (answer.report.status, answer.code) == ("correct", 0), answer.report


@pytest.mark.parametrize("libraries", ["vendor", "any"])
def test_a_kernel_that_checks_its_bounds_passes(judge: Judge, libraries: str) -> None:
    answer = judge(submission("within"), operator=operator(ODD), kernels=KERNELS, libraries=libraries)
    assert (answer.report.status, answer.code) == ("correct", 0), answer.report
    assert not any("guard bands" in note for note in answer.report.notes), answer.report.notes
