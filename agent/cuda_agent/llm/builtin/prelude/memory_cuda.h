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
template <bool Streaming, typename T, int N>
FN void store(T* to, const Pack<T, N>& pack) {
  if constexpr (Streaming && sizeof(pack) == 16)
    __stcs(reinterpret_cast<float4*>(to), *reinterpret_cast<const float4*>(&pack));
  else if constexpr (Streaming && sizeof(pack) == 8)
    __stcs(reinterpret_cast<float2*>(to), *reinterpret_cast<const float2*>(&pack));
  else if constexpr (Streaming && sizeof(pack) == 4)
    __stcs(reinterpret_cast<float*>(to), *reinterpret_cast<const float*>(&pack));
  else
    *reinterpret_cast<Pack<T, N>*>(to) = pack;
}
//@ row_total:
// One number of many threads', the same for each of them; always put together in the same order.
template <int N, typename T, typename F>
FN T warp_total(T x, F combine) {
#pragma unroll
  for (int distance = N / 2; distance > 0; distance /= 2)
    x = combine(x, static_cast<T>(__shfl_xor_sync(0xffffffffu, x, distance)));
  return x;
}
template <int N, typename T, typename F>
FN T block_total(T x, F combine) {
  __shared__ T part[N / 32];
  x = warp_total<32>(x, combine);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
  __syncthreads();
  T total = part[0];
  for (int warp = 1; warp < N / 32; ++warp) total = combine(total, part[warp]);
  __syncthreads();
  return total;
}
template <int N, typename T, typename F>
FN T across_total(T x, F combine) {
  __shared__ T part[N][32];
  part[threadIdx.y][threadIdx.x] = x;
  __syncthreads();
  T total = part[0][threadIdx.x];
  for (int line = 1; line < N; ++line) total = combine(total, part[line][threadIdx.x]);
  __syncthreads();
  return total;
}
