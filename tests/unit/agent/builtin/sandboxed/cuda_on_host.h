#pragma once
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <thread>
#include <type_traits>
#include <vector>
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define __restrict__
struct dim3 { unsigned x, y, z; dim3(unsigned a=1, unsigned b=1, unsigned c=1): x(a), y(b), z(c) {} };
inline thread_local dim3 threadIdx, blockIdx; inline thread_local dim3 blockDim, gridDim;
inline std::barrier<>* the_barrier = nullptr;
inline void __syncthreads() { if (the_barrier) the_barrier->arrive_and_wait(); }
typedef int cudaStream_t;
struct float4 { float x,y,z,w; }; struct float2 { float x,y; };
template <class T> void __stcs(T* p, T v) { *p = v; }
struct __half { uint16_t b; }; struct __nv_bfloat16 { uint16_t b; };
inline float __half2float(__half h) { _Float16 x; std::memcpy(&x,&h,2); return x; }
inline __half __float2half_rn(float f) { _Float16 x=(_Float16)f; __half h; std::memcpy(&h,&x,2); return h; }
inline float __bfloat162float(__nv_bfloat16 h) { uint32_t u=(uint32_t)h.b<<16; float f; std::memcpy(&f,&u,4); return f; }
inline __nv_bfloat16 __float2bfloat16_rn(float f) { uint32_t u; std::memcpy(&u,&f,4); if (f!=f) return {0x7fc0}; u=(u+0x7fff+((u>>16)&1))>>16; return {(uint16_t)u}; }
template <class F> void launch(dim3 g, dim3 b, F f, bool syncs) {
  if (!syncs) { for (unsigned i=0;i<g.x;++i) for (unsigned y=0;y<b.y;++y) for (unsigned x=0;x<b.x;++x) { gridDim=g; blockDim=b; blockIdx={i}; threadIdx={x,y}; f(); } return; }
  unsigned n=b.x*b.y; std::barrier<> bar(n); the_barrier=&bar; std::vector<std::thread> ts;
  for (unsigned t=0;t<n;++t) ts.emplace_back([&,t]{ for (unsigned i=0;i<g.x;++i) { gridDim=g; blockDim=b; blockIdx={i}; threadIdx={t%b.x,t/b.x}; f(); bar.arrive_and_wait(); } });
  for (auto& t: ts) t.join();
}
