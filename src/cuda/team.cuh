// Threads that share a row: a warp, or a whole block for long rows. Sums in a fixed order.
#pragma once

#include "cuda/device.cuh"

namespace fovea::cuda {

constexpr int kTeamBlock = 256;  // threads of a block: 8 rows by warps, or one

template <int kThreads>
struct Team {
  static_assert(kThreads == kWarp || kThreads == kTeamBlock);
  static constexpr int kSize = kThreads;
  int rank = static_cast<int>(threadIdx.x) % kThreads;

  // The row of a team.
  static __device__ int row() {
    return static_cast<int>(blockIdx.x * (kTeamBlock / kThreads) + threadIdx.x / kThreads);
  }
  static int blocks(int rows) { return parts(rows, kTeamBlock / kThreads); }

  __device__ float sum(float x) const {
    return across(warp_sum(x), [](float a, float b) { return a + b; });
  }
  // NaN counts for nothing.
  __device__ float max(float x) const {
    return across(warp_max(x), [](float a, float b) { return fmaxf(a, b); });
  }
  __device__ int min(int x) const {
    return across(__reduce_min_sync(kAll, x), [](int a, int b) { return a < b ? a : b; });
  }
  __device__ bool any(bool x) const {
    if constexpr (kThreads == kWarp) {
      return __any_sync(kAll, x);
    } else {
      return __syncthreads_or(x);
    }
  }

 private:
  template <class T, class Merge>
  __device__ T across(T of_warp, const Merge& merge) const {
    if constexpr (kThreads == kWarp) {
      return of_warp;
    } else {
      __shared__ T by_warp[kTeamBlock / kWarp];
      if (threadIdx.x % kWarp == 0) by_warp[threadIdx.x / kWarp] = of_warp;
      __syncthreads();
      T all = by_warp[0];
#pragma unroll
      for (int w = 1; w < kTeamBlock / kWarp; ++w) all = merge(all, by_warp[w]);
      __syncthreads();
      return all;
    }
  }
};

}  // namespace fovea::cuda
