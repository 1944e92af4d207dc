//@ half_types:
// Half types as they lie in memory; all arithmetic is done in float. Conversions are branchless, so that loops vectorise.
struct Half {
  uint16_t bits;
};
struct BFloat {
  uint16_t bits;
};
FN float bits_to_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
FN uint32_t float_to_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
FN float load(BFloat x) { return bits_to_float(static_cast<uint32_t>(x.bits) << 16); }
FN BFloat store_bfloat16(float x) {
  const uint32_t bits = float_to_bits(x);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return BFloat{static_cast<uint16_t>(x != x ? 0x7fc0u : rounded)};
}
FN float load(Half x) {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16;
  const uint32_t size = static_cast<uint32_t>(x.bits & 0x7fffu) << 13;
  const float scaled = bits_to_float(size) * 5.192296858534828e33f;
  const uint32_t special = float_to_bits(scaled) | (size >= 0x0f800000u ? 0x7f800000u : 0u);
  return bits_to_float(special | sign);
}
FN Half store_float16(float x) {
  const uint32_t bits = float_to_bits(x), sign = (bits >> 16) & 0x8000u, size = bits & 0x7fffffffu;
  const uint32_t normal = (size - 0x38000000u + 0x0fffu + ((size >> 13) & 1u)) >> 13;
  const uint32_t small = float_to_bits(bits_to_float(size) + 0.5f) - 0x3f000000u;
  const uint32_t finite = size < 0x38800000u ? small : normal;
  const uint32_t large = size > 0x7f800000u ? 0x7e00u : 0x7c00u;
  return Half{static_cast<uint16_t>((size >= 0x477ff000u ? large : finite) | sign)};
}
//@ memory: half_types
template <typename T>
FN T load(T x) { return x; }
FN float round_to_float16(float x) { return load(store_float16(x)); }
FN float round_to_bfloat16(float x) { return load(store_bfloat16(x)); }
//@ stream:
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
