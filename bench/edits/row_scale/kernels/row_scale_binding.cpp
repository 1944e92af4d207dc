#include "../binding_registry.h"

extern "C" void row_scale_launch(float*, const float*, const float*, long, long, cudaStream_t);

Tensor row_scale(const Tensor& a, const Tensor& b) {
  CHECK(a.is_contiguous() && b.is_contiguous(), "contiguous tensors were expected");
  Tensor y = empty_like(b);
  row_scale_launch(out<float>(y), in<float>(a), in<float>(b), b.size(0), b.size(1), current_stream(a));
  check_launch("row_scale");
  return y;
}
REGISTER_KERNEL(row_scale, "(Tensor a, Tensor b) -> Tensor");
