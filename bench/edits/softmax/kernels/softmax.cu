#include <cuda_runtime.h>

constexpr int kThreads = 1024;  // edited

// One block a row: a running maximum with its sum in the first pass, the quotients in the second.
__global__ void softmax_kernel(float* out, const float* x, long columns) {
  const float* row = x + blockIdx.x * columns;
  float* to = out + blockIdx.x * columns;
  float highest = -INFINITY, sum = 0.f;
  for (long i = threadIdx.x; i < columns; i += kThreads) {
    const float value = row[i];
    if (value > highest) {
      sum *= __expf(highest - value);
      highest = value;
    }
    sum += __expf(value - highest);
  }
  __shared__ float maxima[kThreads], sums[kThreads];
  maxima[threadIdx.x] = highest, sums[threadIdx.x] = sum;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      const float a = maxima[threadIdx.x], b = maxima[threadIdx.x + half];
      const float m = fmaxf(a, b);
      if (m > -INFINITY) {
        sums[threadIdx.x] = sums[threadIdx.x] * __expf(a - m) + sums[threadIdx.x + half] * __expf(b - m);
      }
      maxima[threadIdx.x] = m;
    }
    __syncthreads();
  }
  const float top = maxima[0], scale = 1.f / sums[0];
  for (long i = threadIdx.x; i < columns; i += kThreads) to[i] = __expf(row[i] - top) * scale;
}

extern "C" void softmax_launch(float* out, const float* x, long rows, long columns, cudaStream_t stream) {
  softmax_kernel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(out, x, columns);
}
