//@ words:
// A state's words, which shuffles and other blocks hand over one by one.
template <typename S>
struct Words {
  static constexpr int kCount = (sizeof(S) + 3) / 4;
  uint32_t word[kCount];
};
template <typename S>
FN Words<S> to_words(const S& state) {
  Words<S> words = {};
  memcpy(&words, &state, sizeof(S));
  return words;
}
template <typename S>
FN S from_words(const Words<S>& words) {
  S state;
  memcpy(&state, &words, sizeof(S));
  return state;
}
//@ warp_fold: words
// All of these leave the same state in each thread, put together in the same order every time.
template <int N, typename S>
FN S warp_fold(S state) {
#pragma unroll
  for (int distance = N / 2; distance > 0; distance /= 2) {
    Words<S> words = to_words(state);
#pragma unroll
    for (int k = 0; k < Words<S>::kCount; ++k) words.word[k] = __shfl_xor_sync(0xffffffffu, words.word[k], distance);
    state.merge(from_words<S>(words));
  }
  return state;
}
//@ block_fold: warp_fold
template <int N, typename S>
FN S block_fold(S state) {
  __shared__ Words<S> part[N / 32];
  state = warp_fold<32>(state);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = to_words(state);
  __syncthreads();
  const int lane = threadIdx.x % 32;
  state = warp_fold<32>(lane < N / 32 ? from_words<S>(part[lane]) : S());
  __syncthreads();
  return state;
}
//@ across_fold: words
// Lane by lane, over the lines of a block.
template <int Lanes, int Lines, int V, typename S>
FN void across_fold(S (&states)[V]) {
  __shared__ Words<S> part[Lines][Lanes * V];
#pragma unroll
  for (int v = 0; v < V; ++v) part[threadIdx.y][threadIdx.x * V + v] = to_words(states[v]);
  __syncthreads();
#pragma unroll
  for (int v = 0; v < V; ++v) {
    S total = from_words<S>(part[0][threadIdx.x * V + v]);
    for (int line = 1; line < Lines; ++line) total.merge(from_words<S>(part[line][threadIdx.x * V + v]));
    states[v] = total;
  }
  __syncthreads();
}
//@ slots: words
// States in memory, for other blocks and other launches.
template <typename S>
FN void put(int64_t* slots, int64_t slot, const S& state) {
  *reinterpret_cast<Words<S>*>(slots + slot * static_cast<int64_t>((sizeof(S) + 7) / 8)) = to_words(state);
}
template <typename S>
FN S get(const int64_t* slots, int64_t slot) {
  const auto* from = reinterpret_cast<const unsigned*>(slots + slot * static_cast<int64_t>((sizeof(S) + 7) / 8));
  Words<S> words;
#pragma unroll
  for (int k = 0; k < Words<S>::kCount; ++k) words.word[k] = __ldcg(from + k);
  return from_words<S>(words);
}
//@ team_fold: warp_fold slots
// A team is a few blocks that share a row; they run at the same time (a cooperative launch). Each block leaves its states
// in memory, then all wait for the last one. Slots are used in turns: nobody is two meetings ahead.
FN void team_meet(int64_t* counter, unsigned wanted) {
  if (threadIdx.x == 0) {
    unsigned* const arrived = reinterpret_cast<unsigned*>(counter);
    __threadfence();
    atomicAdd(arrived, 1u);
    while (*const_cast<const volatile unsigned*>(arrived) < wanted) __nanosleep(32);
    __threadfence();
  }
  __syncthreads();
}
template <int Blocks, typename S>
FN S team_fold(const int64_t* slots, int64_t first) {
  S state;
  for (int block = threadIdx.x % 32; block < Blocks; block += 32) state.merge(get<S>(slots, first + block));
  return warp_fold<32>(state);
}
//@ walk:
// Elements first..last of a row, threads side by side, in vectors where they are aligned; `lead` elements of the first
// vector lie before `first`. The same thread comes to the same elements every time.
template <int N>
using Number = std::integral_constant<int, N>;
template <int U, int V, typename I, typename F>
FN void walk(I first, I last, I lead, I thread, I threads, const F& step) {
  I begin = first;
  if constexpr (V > 1) {
    const I head = lead == 0 ? 0 : (V - lead < last - first ? V - lead : last - first);
    if (thread < head) step(Number<1>(), Number<1>(), first + thread, 0);
    begin += head;
  }
  const I vectors = (last - begin) / V;
  I q = thread;
  if constexpr (U > 1)
#pragma unroll 1
    for (; q + (U - 1) * threads < vectors; q += U * threads) step(Number<U>(), Number<V>(), begin + q * V, threads * V);
  if constexpr (U > 2)
#pragma unroll 1
    for (; q + (U / 2 - 1) * threads < vectors; q += U / 2 * threads)
      step(Number<U / 2>(), Number<V>(), begin + q * V, threads * V);
#pragma unroll 1
  for (; q < vectors; q += threads) step(Number<1>(), Number<V>(), begin + q * V, 0);
  if constexpr (V > 1)
    if (begin + vectors * V + thread < last) step(Number<1>(), Number<1>(), begin + vectors * V + thread, 0);
}
//@ walk_down:
// Columns first..last of a few neighbouring rows, a line of threads a column.
template <int U, typename I, typename F>
FN void walk_down(I first, I last, I line, I lines, const F& step) {
  I c = first + line;
  if constexpr (U > 1)
#pragma unroll 1
    for (; c + (U - 1) * lines < last; c += U * lines) step(std::integral_constant<int, U>(), c);
  if constexpr (U > 2)
#pragma unroll 1
    for (; c + (U / 2 - 1) * lines < last; c += U / 2 * lines) step(std::integral_constant<int, U / 2>(), c);
#pragma unroll 1
  for (; c < last; c += lines) step(std::integral_constant<int, 1>(), c);
}
//@ hold: pack
// Brings a vector into shared memory; a whole row is under way at once. The thread that copies it is the one that reads it.
template <typename T, int V>
FN void hold(T* to, const T* from) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) * V == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :: "r"(static_cast<unsigned>(__cvta_generic_to_shared(to))), "l"(from) : "memory");
    return;
  } else if constexpr (sizeof(T) * V == 8 || sizeof(T) * V == 4) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
                 :: "r"(static_cast<unsigned>(__cvta_generic_to_shared(to))), "l"(from), "n"(sizeof(T) * V) : "memory");
    return;
  }
#endif
  *reinterpret_cast<Pack<T, V>*>(to) = *reinterpret_cast<const Pack<T, V>*>(from);
}
FN void all_held() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
//@ misaligned:
// How many elements lie between the last vector's start and `at`.
template <int V, typename T>
FN int misaligned(const T* at) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(at) / sizeof(T) % V);
}
//@ aligned:
template <int V, typename T>
static bool aligned(const T* at) { return reinterpret_cast<uintptr_t>(at) % (V * sizeof(T)) == 0; }
//@ launch_teams:
// Starts as many teams of `team` blocks as run at once; an error of the launch says that not even one does.
template <auto kKernel, typename... P>
static void launch_teams(int64_t rows, int team, int most, int threads, int bytes, int64_t* counters,
                         cudaStream_t stream, P... args) {
  static int known = -1, blocks = 0;
  int device = 0;
  cudaGetDevice(&device);
  if (device != known) {
    int processors = 0, each = 0;
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kKernel, threads, bytes);
    known = device, blocks = each * processors;
  }
  int64_t teams = blocks / team;
  teams = teams < rows ? teams : rows;
  teams = teams < most ? teams : most;
  cudaMemsetAsync(counters, 0, teams * 128, stream);
  void* list[] = {&args...};
  cudaLaunchCooperativeKernel(kKernel, dim3(static_cast<unsigned>(teams * team)), dim3(threads), list, bytes, stream);
}
//@ launch_held:
template <auto kKernel, typename... P>
static void launch_held(int64_t rows, int threads, int bytes, cudaStream_t stream, P... args) {
  static int known = -1;
  int device = 0;
  cudaGetDevice(&device);
  if (device != known) {
    cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    known = device;
  }
  void* list[] = {&args...};
  cudaLaunchKernel(kKernel, dim3(static_cast<unsigned>(rows)), dim3(threads), list, bytes, stream);
}
