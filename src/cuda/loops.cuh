// Loops over elements, and where strided ones lie.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "cuda/device_memory.h"
#include "cuda/error.h"
#include "kernels/strided.h"

namespace fovea::cuda {

constexpr int kThreads = 256;

// Blocks for n elements, a thread each, of which those of a full GPU take turns.
inline unsigned grid_for(int64_t n) {
  return static_cast<unsigned>(
      std::clamp<int64_t>((n + kThreads - 1) / kThreads, 1, int64_t{16} * limits().processors));
}

// for (i of this thread; i < n; next)
__device__ __forceinline__ int64_t first_element() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ int64_t element_step() {
  return static_cast<int64_t>(gridDim.x) * blockDim.x;
}

// A shape with neighbouring dimensions merged (kernels/strided.h), and each operand's strides.
template <int kOperands>
struct Walk {
  int rank;
  int64_t numel;
  int64_t sizes[kernels::kMaxRank];
  int64_t strides[kOperands][kernels::kMaxRank];

  Walk(std::span<const int64_t> shape, std::span<const int64_t* const> by_operand) {
    const kernels::StridedLoop loop(shape, by_operand);
    rank = loop.rank;
    numel = loop.numel;
    for (int d = 0; d < rank; ++d) {
      sizes[d] = loop.sizes[d];
      for (int o = 0; o < kOperands; ++o) {
        strides[o][d] = o < loop.operands ? loop.strides[o][d] : 0;
      }
    }
  }

  // Where element i of each operand lies. Divisions of 64 bits take several times as long as those
  // of 32.
  __device__ __forceinline__ void at(int64_t i, int64_t (&offset)[kOperands]) const {
    if (numel <= UINT32_MAX) return find(static_cast<uint32_t>(i), offset);
    find(i, offset);
  }

 private:
  template <class Index>
  __device__ __forceinline__ void find(Index i, int64_t (&offset)[kOperands]) const {
#pragma unroll
    for (int o = 0; o < kOperands; ++o) offset[o] = 0;
    for (int d = rank - 1; d > 0; --d) {
      const Index size = static_cast<Index>(sizes[d]), next = i / size, here = i - next * size;
#pragma unroll
      for (int o = 0; o < kOperands; ++o) offset[o] += here * strides[o][d];
      i = next;
    }
#pragma unroll
    for (int o = 0; o < kOperands; ++o) offset[o] += i * strides[o][0];
  }
};

// The sum, or the largest, over a block of kThreads: the same in every thread, in a fixed order.
template <class T, class Join>
__device__ __forceinline__ T over_block(T x, const Join& join) {
  __shared__ T parts[kThreads / 32];
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) x = join(x, __shfl_xor_sync(0xffffffffu, x, o));
  __syncthreads();  // whoever reads the last one's is through
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  T all = parts[0];
#pragma unroll
  for (int w = 1; w < kThreads / 32; ++w) all = join(all, parts[w]);
  return all;
}
template <class T>
__device__ __forceinline__ T block_sum(T x) {
  return over_block(x, [](T a, T b) { return a + b; });
}
// NaN where one is.
__device__ __forceinline__ float block_max(float x) {
  return over_block(x, [](float a, float b) { return a > b || a != a ? a : b; });
}

}  // namespace fovea::cuda
