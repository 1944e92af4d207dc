// Checks the tensors of diagonal_product and runs its kernels.
#include "../binding_registry.h"

extern "C" void diagonal_product_0(const float*, const float*, float*);

using Sizes = std::vector<int64_t>;

static void expect(const Tensor& tensor, const char* name, ScalarType type, const Sizes& sizes,
                   const Sizes& strides) {
  CHECK(tensor.scalar_type() == type, name, ": another dtype was expected");
  const int64_t rank = static_cast<int64_t>(sizes.size());
  CHECK(tensor.dim() == rank, name, ": another number of dimensions was expected");
  for (size_t k = 0; k < sizes.size(); ++k) {
    CHECK(tensor.size(k) == sizes[k], name, ": another shape was expected");
    const bool counts = sizes[k] != 1 && tensor.numel() != 0;
    CHECK(!counts || tensor.stride(k) == strides[k], name, ": other strides were expected");
  }
}

void diagonal_product(const Tensor& i0, const Tensor& i1, const Tensor& out0) {
  expect(i0, "i0", ScalarType::Float, {2048}, {1});
  expect(i1, "i1", ScalarType::Float, {2048, 2048}, {2048, 1});
  expect(out0, "out0", ScalarType::Float, {2048, 2048}, {2048, 1});
  diagonal_product_0(in<float>(i0), in<float>(i1), out<float>(out0));
}
REGISTER_KERNEL(diagonal_product, "(Tensor i0, Tensor i1, Tensor(w0!) out0) -> ()");
