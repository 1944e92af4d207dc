// How a kernel becomes callable from Python. Do not edit: the judge builds with its own copy.
//
// A kernel lives in kernels/NAME.cu (target cuda) or kernels/NAME.cpp (target cpu) behind a plain `extern "C"` launcher,
// free of torch headers, so that it compiles in about a second. kernels/NAME_binding.cpp includes this file, checks its
// tensors, allocates its outputs and registers one function:
//
//     Tensor scale(const Tensor& x, double factor) { ... }
//     REGISTER_KERNEL(scale, "(Tensor x, float factor) -> Tensor");
//
// In model_new.py: `import cuda_extension` and `cuda_extension.scale(x, 2.0)`.
// Types by schema: Tensor = Tensor, int = int64_t, float = double, bool = bool, Tensor? = std::optional<Tensor>,
// int[] = std::vector<int64_t>, (Tensor, Tensor) = std::tuple<Tensor, Tensor>.
//
// REGISTER_BINDING(NAME, function) registers through pybind11 instead: `void function(pybind11::module& m)` calls m.def.
// Such a file includes <torch/types.h> and <torch/csrc/utils/pybind.h>, which take some 20 times as long to compile. One
// submission uses one of the two.
#pragma once

#ifdef CUDA_AGENT_PYBIND

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <vector>

namespace cuda_agent {

using Binding = void (*)(pybind11::module_&);

inline std::vector<Binding>& bindings() {
  static std::vector<Binding> all;
  return all;
}

struct Registered {
  explicit Registered(Binding binding) { bindings().push_back(binding); }
};

}  // namespace cuda_agent

#define REGISTER_BINDING(name, function) \
  static const cuda_agent::Registered cuda_agent_registered_##name([](pybind11::module_& m) { function(m); })

#else

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/Exception.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#ifdef CUDA_AGENT_TARGET_CUDA
#include <cuda_runtime.h>
extern "C" AOTITorchError aoti_torch_get_current_cuda_stream(int32_t device_index, void** stream);
#define CUDA_AGENT_DISPATCH_KEY CUDA
#else
#define CUDA_AGENT_DISPATCH_KEY CPU
#endif

using torch::headeronly::ScalarType;
using torch::stable::Tensor;
using torch::stable::empty_like;  // uninitialised memory, same shape, strides and dtype
using torch::stable::new_empty;   // new_empty(like, {rows, columns}): contiguous, same dtype and device

#define REGISTER_KERNEL(function, schema)                                        \
  STABLE_TORCH_LIBRARY_FRAGMENT(cuda_extension, m) { m.def(#function schema); }  \
  STABLE_TORCH_LIBRARY_IMPL(cuda_extension, CUDA_AGENT_DISPATCH_KEY, m) {        \
    m.impl(#function, TORCH_BOX(&function));                                     \
  }                                                                              \
  static_assert(true, "a semicolon follows")

// CHECK(condition, "what was expected"): raises in Python.
#define CHECK(condition, ...) STD_TORCH_CHECK(condition, __VA_ARGS__)

template <typename T>
const T* in(const Tensor& tensor) {
  return static_cast<const T*>(tensor.const_data_ptr());
}

template <typename T>
T* out(const Tensor& tensor) {
  return static_cast<T*>(tensor.mutable_data_ptr());
}

#ifdef CUDA_AGENT_TARGET_CUDA
// The stream that PyTorch is using; launch on it and on no other.
inline cudaStream_t current_stream(const Tensor& tensor) {
  void* stream = nullptr;
  CHECK(aoti_torch_get_current_cuda_stream(tensor.get_device_index(), &stream) == 0, "no current CUDA stream");
  return static_cast<cudaStream_t>(stream);
}

// Call after each launch: a refused launch is silent otherwise.
inline void check_launch(const char* kernel) {
  const cudaError_t error = cudaGetLastError();
  CHECK(error == cudaSuccess, kernel, ": ", cudaGetErrorString(error));
}
#endif

#endif  // CUDA_AGENT_PYBIND
