// Stands in for CUDA's language on the host. A block's threads are coroutines of one thread: at a barrier or a shuffle
// each lets the others go on until all of its block, or of its warp, have come there. The blocks of a cooperative launch
// are threads of the host, so that they may wait for each other; those of any other launch run one after the other.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <thread>
#include <type_traits>
#include <ucontext.h>
#include <utility>
#include <vector>
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static thread_local
#define __restrict__
struct dim3 { unsigned x, y, z; dim3(unsigned a=1, unsigned b=1, unsigned c=1): x(a), y(b), z(c) {} };
inline thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;
typedef int cudaStream_t;
struct float4 { float x,y,z,w; }; struct float2 { float x,y; }; struct alignas(16) uint4 { unsigned x,y,z,w; };
template <class T> void __stcs(T* p, T v) { *p = v; }
template <class T> T __ldcg(const T* p) { return *const_cast<const volatile T*>(p); }
inline unsigned atomicAdd(unsigned* p, unsigned n) { return __atomic_fetch_add(p, n, __ATOMIC_SEQ_CST); }
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __nanosleep(unsigned) { std::this_thread::yield(); }
struct __half { uint16_t b; }; struct __nv_bfloat16 { uint16_t b; };
inline float __half2float(__half h) { _Float16 x; std::memcpy(&x,&h,2); return x; }
inline __half __float2half_rn(float f) { _Float16 x=(_Float16)f; __half h; std::memcpy(&h,&x,2); return h; }
inline float __bfloat162float(__nv_bfloat16 h) { uint32_t u=(uint32_t)h.b<<16; float f; std::memcpy(&f,&u,4); return f; }
inline __nv_bfloat16 __float2bfloat16_rn(float f) { uint32_t u; std::memcpy(&u,&f,4); if (f!=f) return {0x7fc0}; u=(u+0x7fff+((u>>16)&1))>>16; return {(uint16_t)u}; }

// Where a number of threads meet: `phase` counts how often all of them were there.
struct Meeting { unsigned size = 0, here = 0, phase = 0; };
constexpr size_t kStack = 32768;
struct Fiber { ucontext_t context; std::unique_ptr<char[]> stack; bool over = false; };
struct Block {
  ucontext_t scheduler;
  std::vector<Fiber> fibers;
  std::vector<Meeting> warps;
  Meeting all;
  std::vector<uint64_t> slots;
  std::function<void()> body;
  unsigned current = 0;
};
inline thread_local std::unique_ptr<Block> the_block;
inline unsigned linear_thread() { return threadIdx.x + threadIdx.y * blockDim.x; }
inline void let_others_go_on() { swapcontext(&the_block->fibers[the_block->current].context, &the_block->scheduler); }
inline void meet(Meeting& place) {
  const unsigned phase = place.phase;
  if (++place.here == place.size) { place.here = 0; ++place.phase; return; }
  while (place.phase == phase) let_others_go_on();
}
inline void __syncthreads() { if (the_block) meet(the_block->all); }
template <class T> T __shfl_xor_sync(unsigned mask, T x, int lane_mask) {
  static_assert(sizeof(T) <= 8);
  if (mask != 0xffffffffu || !the_block) std::abort();
  const unsigned me = linear_thread();
  Meeting& warp = the_block->warps[me / 32];
  if (warp.size != 32) std::abort();  // a shuffle reads lanes that do not exist
  std::memcpy(&the_block->slots[me], &x, sizeof x);
  meet(warp);
  T got;
  std::memcpy(&got, &the_block->slots[me ^ static_cast<unsigned>(lane_mask)], sizeof got);
  meet(warp);
  return got;
}
inline void run_fiber() {
  Block& block = *the_block;
  block.body();
  block.fibers[block.current].over = true;
  swapcontext(&block.fibers[block.current].context, &block.scheduler);
}
// Runs one block's threads to their end.
inline void run_block(unsigned number, dim3 shape, const std::function<void()>& body) {
  const unsigned n = shape.x * shape.y;
  if (!the_block) {
    the_block = std::make_unique<Block>();
    the_block->fibers.resize(n);
    for (Fiber& fiber : the_block->fibers) fiber.stack.reset(new char[kStack]);
  }
  Block& block = *the_block;
  block.body = body;
  blockIdx = {number};
  block.all = {n, 0, 0};
  block.warps.assign((n + 31) / 32, Meeting{});
  for (unsigned t = 0; t < n; ++t) ++block.warps[t / 32].size;
  block.slots.assign(n, 0);
  for (Fiber& fiber : block.fibers) {
    fiber.over = false;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStack;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, run_fiber, 0);
  }
  for (bool left = true; left;) {
    left = false;
    for (unsigned t = 0; t < n; ++t) {
      if (block.fibers[t].over) continue;
      left = true;
      block.current = t;
      threadIdx = {t % shape.x, t / shape.x};
      swapcontext(&block.scheduler, &block.fibers[t].context);
    }
  }
}
template <class F> void launch(dim3 g, dim3 b, F f, bool syncs) {
  gridDim = g; blockDim = b;
  if (!syncs) { for (unsigned i=0;i<g.x;++i) for (unsigned y=0;y<b.y;++y) for (unsigned x=0;x<b.x;++x) { blockIdx={i}; threadIdx={x,y}; f(); } return; }
  for (unsigned i = 0; i < g.x; ++i) run_block(i, b, f);
  the_block.reset();
}

// A device of a few multiprocessors, with room for one block on each.
inline thread_local std::vector<uint4> shared_memory;
inline uint4* dynamic_shared() { return shared_memory.data(); }
enum { cudaDevAttrMultiProcessorCount, cudaFuncAttributeMaxDynamicSharedMemorySize };
constexpr int kProcessors = 7;
inline int cudaGetDevice(int* device) { return *device = 0; }
inline int cudaDeviceGetAttribute(int* value, int, int) { *value = kProcessors; return 0; }
template <class K> int cudaFuncSetAttribute(K, int, int) { return 0; }
template <class K> int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, K, int, size_t) { *blocks = 1; return 0; }
inline int cudaMemsetAsync(void* at, int value, size_t bytes, int) { std::memset(at, value, bytes); return 0; }
template <class... P, size_t... K>
std::function<void()> bound(void (*kernel)(P...), void** list, std::index_sequence<K...>) {
  return [=] { kernel(*static_cast<P*>(list[K])...); };
}
template <class... P>
int cudaLaunchKernel(void (*kernel)(P...), dim3 g, dim3 b, void** list, size_t bytes, int) {
  shared_memory.assign(bytes / 16 + 1, uint4{});
  launch(g, b, bound(kernel, list, std::index_sequence_for<P...>()), true);
  return 0;
}
template <class... P>
int cudaLaunchCooperativeKernel(void (*kernel)(P...), dim3 g, dim3 b, void** list, size_t bytes, int) {
  if (g.x == 0) std::abort();  // not even one team runs at once
  const auto body = bound(kernel, list, std::index_sequence_for<P...>());
  std::vector<std::thread> blocks;
  for (unsigned i = 0; i < g.x; ++i)
    blocks.emplace_back([&, i] {
      gridDim = g; blockDim = b;
      shared_memory.assign(bytes / 16 + 1, uint4{});
      run_block(i, b, body);
      the_block.reset();
    });
  for (std::thread& block : blocks) block.join();
  return 0;
}
