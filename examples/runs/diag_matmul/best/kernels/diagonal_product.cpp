// A product with a diagonal matrix is a scaling of rows or columns: one pass over memory, no matrix product.
// variant: streamed
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#if defined(__AVX__)
#include <immintrin.h>
#endif

#define FN static inline

namespace {

constexpr bool kStream = true;
constexpr int64_t kChunk = 1024;
constexpr int64_t kTileRows = 16;
constexpr int64_t kTileColumns = 128;
constexpr int64_t kBlock = 1024;
constexpr int64_t kLanes = 64;

// Writes whole cache lines past the caches: a large output is not read before it is written.
static inline void stream_copy(void* destination, const void* source, size_t bytes) {
  char* to = static_cast<char*>(destination);
  const char* from = static_cast<const char*>(source);
#if defined(__AVX__)
  const size_t head = (64 - reinterpret_cast<uintptr_t>(to) % 64) % 64;
  if (bytes > head + 64) {
    std::memcpy(to, from, head);
    to += head, from += head, bytes -= head;
    for (; bytes >= 64; to += 64, from += 64, bytes -= 64) {
      const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
      const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 32));
      _mm256_stream_si256(reinterpret_cast<__m256i*>(to), low);
      _mm256_stream_si256(reinterpret_cast<__m256i*>(to + 32), high);
    }
  }
#endif
  std::memcpy(to, from, bytes);
}
static inline void stream_fence() {
#if defined(__AVX__)
  _mm_sfence();
#endif
}

}  // namespace

extern "C" void diagonal_product_0(const float* __restrict__ i0, const float* __restrict__ i1, float* __restrict__ out0) {
  constexpr int64_t kInner = 2048, kRows = 2048;
  constexpr int64_t kColumns = kInner < kChunk ? kInner : kChunk;
  constexpr int64_t kGroup = kInner < kChunk ? kChunk / kInner : 1;
  constexpr int64_t kParts = (kInner + kColumns - 1) / kColumns;
  constexpr int64_t kGroups = (kRows + kGroup - 1) / kGroup;
  #pragma omp parallel if (kInner * kRows > 16384)
  {
  alignas(64) float staged_out0[kStream ? kGroup * kColumns : 1];
  #pragma omp for schedule(static)
  for (int64_t task = 0; task < kGroups * kParts; ++task) {
    const int64_t first = task / kParts * kGroup, begin = task % kParts * kColumns;
    const int64_t last = first + kGroup < kRows ? first + kGroup : kRows;
    const int64_t count = begin + kColumns < kInner ? kColumns : kInner - begin;
    for (int64_t row = first; row < last; ++row) {
      const int64_t d0 = row;
      const float* x0 = i0 + (d0);
      const float* x1 = i1 + (d0 * 2048 + begin);
      float* __restrict__ to_out0 = kStream ? staged_out0 + (row - first) * count : out0 + row * kInner + begin;
      #pragma omp simd
      for (int64_t column = 0; column < count; ++column) {
        const float v0 = x0[0];
        const float v1 = x1[column];
        const float v2 = v0 * v1;
        to_out0[column] = v2;
      }
    }
    if (kStream) {
      stream_copy(out0 + first * kInner + begin, staged_out0, ((last - first) * count) * 4u);
    }
  }
  if (kStream) stream_fence();
  }
}
