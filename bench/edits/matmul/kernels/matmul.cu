#include <cuda_runtime.h>

constexpr int kTile = 64, kDepth = 16, kPer = 4;  // edited
constexpr int kSide = kTile / kPer;

// One block a tile of 64 x 64, one thread 4 x 4 of it; whole tiles only.
__global__ void matmul_kernel(float* out, const float* a, const float* b, int n) {
  __shared__ float left[kDepth][kTile + 4], right[kDepth][kTile];
  const int tx = threadIdx.x, ty = threadIdx.y, thread = ty * kSide + tx;
  const int row = blockIdx.y * kTile, column = blockIdx.x * kTile;
  float sums[kPer][kPer] = {};
  for (int k = 0; k < n; k += kDepth) {
    for (int i = thread; i < kTile * kDepth; i += kSide * kSide) {
      left[i % kDepth][i / kDepth] = a[static_cast<long>(row + i / kDepth) * n + k + i % kDepth];
      right[i / kTile][i % kTile] = b[static_cast<long>(k + i / kTile) * n + column + i % kTile];
    }
    __syncthreads();
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      for (int i = 0; i < kPer; ++i) {
        for (int j = 0; j < kPer; ++j) sums[i][j] += left[d][ty * kPer + i] * right[d][tx * kPer + j];
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < kPer; ++i) {
    for (int j = 0; j < kPer; ++j) {
      out[static_cast<long>(row + ty * kPer + i) * n + column + tx * kPer + j] = sums[i][j];
    }
  }
}

extern "C" void matmul_launch(float* out, const float* a, const float* b, int n, cudaStream_t stream) {
  matmul_kernel<<<dim3(n / kTile, n / kTile), dim3(kSide, kSide), 0, stream>>>(out, a, b, n);
}
