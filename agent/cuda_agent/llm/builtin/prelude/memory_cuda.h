//@ memory:
template <typename T>
FN T load(T x) { return x; }
FN float load(__half x) { return __half2float(x); }
FN float load(__nv_bfloat16 x) { return __bfloat162float(x); }
FN __half store_float16(float x) { return __float2half_rn(x); }
FN __nv_bfloat16 store_bfloat16(float x) { return __float2bfloat16_rn(x); }
FN float round_to_float16(float x) { return load(store_float16(x)); }
FN float round_to_bfloat16(float x) { return load(store_bfloat16(x)); }
//@ pack:
// Sixteen bytes at once.
template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T item[N];
};
