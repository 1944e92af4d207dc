"""Kernels for y = relu(x), each with one fault, in the pybind style: every fault is refused, the honest ones pass."""

import pytest
from conftest import Judge

pytestmark = pytest.mark.gpu

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <unistd.h>

template <typename Index, typename T>
__global__ void positive_part(const T* from, T* to, Index count) {
  Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) to[i] = from[i] > T(0) ? from[i] : T(0);
}
__global__ void write_far_away(float* to, long count) { to[count + (1L << 34) + threadIdx.x] = 1.f; }
__global__ void wait_for(volatile int* flag) { while (*flag == 0) {} }
__global__ void abort_device() { asm("trap;"); }

using torch::Tensor;
static unsigned blocks(long count) { return static_cast<unsigned>((count + 255) / 256); }
static void launch(const Tensor& x, const Tensor& y, int threads, cudaStream_t stream) {
  positive_part<long><<<blocks(x.numel()), threads, 0, stream>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
}

Tensor default_stream(Tensor x) { Tensor y = torch::empty_like(x); launch(x, y, 256, nullptr); return y; }
Tensor out_of_bounds(Tensor x) {
  Tensor y = torch::empty_like(x);
  write_far_away<<<1, 32>>>(y.data_ptr<float>(), y.numel());
  return y;
}
Tensor endless(Tensor x) {
  Tensor y = default_stream(x);
  Tensor flag = torch::zeros({1}, x.options().dtype(torch::kInt));
  wait_for<<<1, 1>>>(flag.data_ptr<int>());
  return y;
}
Tensor refused_launch(Tensor x) { Tensor y = torch::empty_like(x); launch(x, y, 2048, nullptr); return y; }
Tensor private_stream(Tensor x) {
  static cudaStream_t own = nullptr;
  if (!own) cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
  Tensor y = torch::empty_like(x);
  launch(x, y, 256, own);
  return y;
}
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
Tensor untouched(Tensor x) { return torch::empty_like(x); }
Tensor clears_input(Tensor x) {
  Tensor y = default_stream(x);
  cudaMemsetAsync(x.data_ptr<float>(), 0, x.numel() * sizeof(float), nullptr);
  return y;
}
template <typename Index>
static Tensor bytes_by(const Tensor& x) {
  Tensor y = torch::empty_like(x);
  const Index count = static_cast<Index>(x.numel());
  positive_part<Index><<<blocks(x.numel()), 256>>>(x.data_ptr<int8_t>(), y.data_ptr<int8_t>(), count);
  return y;
}
Tensor narrow_index(Tensor x) { return bytes_by<int>(x); }
Tensor wide_index(Tensor x) { return bytes_by<long>(x); }
Tensor device_trap(Tensor x) { Tensor y = default_stream(x); abort_device<<<1, 1>>>(); return y; }
Tensor leaves(Tensor x) { _exit(0); return x; }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("default_stream", &default_stream);
  m.def("out_of_bounds", &out_of_bounds);
  m.def("endless", &endless);
  m.def("refused_launch", &refused_launch);
  m.def("private_stream", &private_stream);
  m.def("within", &within);
  m.def("beyond", &beyond);
  m.def("beyond_scratch", &beyond_scratch);
  m.def("before", &before);
  m.def("beyond_input", &beyond_input);
  m.def("untouched", &untouched);
  m.def("clears_input", &clears_input);
  m.def("narrow_index", &narrow_index);
  m.def("wide_index", &wide_index);
  m.def("device_trap", &device_trap);
  m.def("leaves", &leaves);
}
"""
KERNELS = {"relu.cu": SOURCE}
SMALL = "4096, 4096"
ABOVE_INT = "65537, 32768"


def operator(shape: str) -> str:
    return f"""
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [torch.randn({shape})]
"""


def submission(function: str) -> str:
    return f"""
import torch
import cuda_extension
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return cuda_extension.{function}(x)
"""


@pytest.mark.parametrize(
    ("function", "statuses"),
    [
        ("out_of_bounds", {"runtime_error"}),
        ("endless", {"timeout"}),
        ("refused_launch", {"runtime_error", "incorrect"}),
        ("private_stream", {"incorrect"}),
        ("untouched", {"incorrect"}),
        ("clears_input", {"incorrect"}),
        ("device_trap", {"runtime_error"}),
        ("leaves", {"runtime_error"}),
    ],
)
def test_a_faulty_kernel_is_refused(judge: Judge, function: str, statuses: set[str]) -> None:
    answer = judge(submission(function), operator=operator(SMALL), kernels=KERNELS, call_timeout_s=20)
    assert answer.report.status in statuses, answer.report
    assert answer.code == 1


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


def test_the_legacy_default_stream_is_honest(judge: Judge) -> None:
    answer = judge(submission("default_stream"), operator=operator(SMALL), kernels=KERNELS, call_timeout_s=20)
    assert (answer.report.status, answer.code) == ("correct", 0), answer.report


def test_an_honest_kernel_is_timed_without_a_reason_for_doubt(judge: Judge) -> None:
    answer = judge(
        submission("default_stream"), operator=operator(SMALL), kernels=KERNELS, call_timeout_s=20, command="verdict"
    )
    assert answer.report.status in ("tie", "slower", "win"), answer.report
    assert not any("disagreed" in note for note in answer.report.notes), answer.report.notes
    assert set(answer.report.latency_ms) == {"eager", "compile", "submission"}


def test_an_index_of_32_bits_is_refused_only_where_it_wraps(judge: Judge) -> None:
    # Bytes: what counts is the number of elements, and so 2 GB are enough.
    def judged(function: str, shape: str) -> str:
        drawn = operator(shape).replace(f"torch.randn({shape})", f"torch.randint(-99, 99, ({shape}), dtype=torch.int8)")
        return judge(submission(function), operator=drawn, kernels=KERNELS, call_timeout_s=60).report.status

    assert judged("narrow_index", SMALL) == "correct"
    assert judged("narrow_index", ABOVE_INT) in ("incorrect", "runtime_error")
    assert judged("wide_index", ABOVE_INT) == "correct"
