#include <cuda_runtime.h>

constexpr int kThreads = 256;  // edited

__global__ void axpby_kernel(float* out, const float* a, const float* b, float alpha, long size) {
  const long i = blockIdx.x * static_cast<long>(blockDim.x) + threadIdx.x;
  if (i < size) out[i] = alpha * a[i] + b[i];
}

extern "C" void axpby_launch(float* out, const float* a, const float* b, float alpha, long size, cudaStream_t stream) {
  const unsigned blocks = static_cast<unsigned>((size + kThreads - 1) / kThreads);
  axpby_kernel<<<blocks, kThreads, 0, stream>>>(out, a, b, alpha, size);
}
