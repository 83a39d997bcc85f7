// The device's own instructions, named once.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace fovea::cuda {

// Blocks that share a processor, for the compiler's count of registers: code for 8.0 needs some
// more.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define FOVEA_BLOCKS_AT_ONCE(n) ((n) / 2)
#else
#define FOVEA_BLOCKS_AT_ONCE(n) (n)
#endif

constexpr float kLog2e = 1.4426950408889634f, kLn2 = 0.6931471805599453f;
constexpr int kWarp = 32;
constexpr unsigned kAll = 0xffffffffu;

// 1/x and 2^x to about one unit in the last place but one; what is subnormal counts as 0.
__device__ __forceinline__ float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0,%1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0,%1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float infinity() { return __int_as_float(0x7f800000); }
__device__ __forceinline__ float not_a_number() { return __int_as_float(0x7fffffff); }
__device__ __forceinline__ bool finite(float x) { return fabsf(x) < infinity(); }
// The larger or the smaller of the two; NaN where x is.
__device__ __forceinline__ float at_least(float x, float least) { return x < least ? least : x; }
__device__ __forceinline__ float at_most(float x, float most) {
  float y;
  asm("min.NaN.f32 %0,%1,%2;" : "=f"(y) : "f"(x), "f"(most));
  return y;
}

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
// 16 bytes into shared memory, in the background; zeros unless `there`.
__device__ __forceinline__ void copy16(void* to, const void* from, bool there) {
  const int bytes = there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0],[%1],16,%2;" ::"r"(shared_address(to)), "l"(from),
               "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void copies_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kLeft>
__device__ __forceinline__ void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

// Fragments of 16-bit matrices, four of 8×8, as they lie or transposed.
__device__ __forceinline__ void load_fragments(uint32_t (&r)[4], const void* from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(from)));
}
__device__ __forceinline__ void load_transposed(uint32_t (&r)[4], const void* from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3},[%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(from)));
}
// c[16×8] += a[16×16]·b[16×8], bfloat16 into float.
__device__ __forceinline__ void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                             uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

using bf16 = __nv_bfloat16;

// Eight of them, side by side, as floats and back: the nearest, of two the even one.
__device__ __forceinline__ void widen8(const uint4& from, float (&to)[8]) {
  const uint32_t pairs[4] = {from.x, from.y, from.z, from.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    to[2 * i] = __uint_as_float(pairs[i] << 16);
    to[2 * i + 1] = __uint_as_float(pairs[i] & 0xffff0000u);
  }
}
__device__ __forceinline__ uint32_t narrow2(float a, float b) {
  const __nv_bfloat162 x = __floats2bfloat162_rn(a, b);
  return *reinterpret_cast<const uint32_t*>(&x);
}
__device__ __forceinline__ uint4 narrow8(const float (&x)[8]) {
  return {narrow2(x[0], x[1]), narrow2(x[2], x[3]), narrow2(x[4], x[5]), narrow2(x[6], x[7])};
}

// a and b as bfloat16 and what that leaves of them, as bfloat16 again: 16 bits of 24 together.
__device__ __forceinline__ void split(float a, float b, uint32_t& high, uint32_t& low) {
  const __nv_bfloat162 h = __floats2bfloat162_rn(a, b);
  const __nv_bfloat162 l = __floats2bfloat162_rn(a - __low2float(h), b - __high2float(h));
  high = *reinterpret_cast<const uint32_t*>(&h);
  low = *reinterpret_cast<const uint32_t*>(&l);
}

// Whether a number has such halves: the largest ones round to infinity.
__device__ __forceinline__ bool has_halves(float x) { return fabsf(x) < 3.38e38f; }

// Both numbers again.
__device__ __forceinline__ float2 joined(uint32_t high, uint32_t low) {
  const __nv_bfloat162 h = *reinterpret_cast<const __nv_bfloat162*>(&high);
  const __nv_bfloat162 l = *reinterpret_cast<const __nv_bfloat162*>(&low);
  return {__low2float(h) + __low2float(l), __high2float(h) + __high2float(l)};
}

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) x += __shfl_xor_sync(kAll, x, o);
  return x;
}
__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) x = fmaxf(x, __shfl_xor_sync(kAll, x, o));
  return x;
}

__host__ __device__ constexpr int round_up(int x, int to) { return (x + to - 1) / to * to; }
__host__ __device__ constexpr int parts(int x, int of) { return (x + of - 1) / of; }

}  // namespace fovea::cuda
