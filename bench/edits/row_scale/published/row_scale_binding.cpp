#include <torch/types.h>
#include <torch/csrc/utils/pybind.h>
#include <cuda_runtime.h>
#include <c10/cuda/CUDAStream.h>
#include "../binding_registry.h"

extern "C" void row_scale_launch(float*, const float*, const float*, long, long, cudaStream_t);

static torch::Tensor row_scale(torch::Tensor a, torch::Tensor b) {
  TORCH_CHECK(a.is_contiguous() && b.is_contiguous(), "contiguous tensors were expected");
  torch::Tensor out = torch::empty_like(b);
  row_scale_launch(out.data_ptr<float>(), a.data_ptr<float>(), b.data_ptr<float>(), b.size(0), b.size(1), c10::cuda::getCurrentCUDAStream().stream());
  return out;
}

static void register_row_scale(pybind11::module& m) { m.def("row_scale", &row_scale); }

REGISTER_BINDING(row_scale, register_row_scale);
