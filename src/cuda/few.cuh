// Products of few rows with weights, in float32 on tensor cores (tf32.cuh).
//
// A block has 64 rows and 32 columns, the blocks of a cluster and the warps of a block a share of k
// each. What a warp multiplies is its own, so it comes from memory straight into registers: each
// lane loads four neighbours in k, whose order within a product is free. Sums of warps, then of
// blocks, are added in a fixed order. No launch follows to add up parts, and whoever wants can use
// a sum where it is made.
#pragma once

#include "cuda/device.cuh"
#include "cuda/device_memory.h"
#include "cuda/launch.cuh"
#include "cuda/tf32.cuh"

namespace fovea::cuda {

constexpr int kFewRows = 64, kFewColumns = 32, kFewDeep = 16;  // of a block; k at a time
constexpr int kFewWarps = 8, kFewThreads = kFewWarps * kWarp;
constexpr int kFewLd = kFewColumns + 4;  // of the sums in shared memory
constexpr int kFewShared = kFewWarps * kFewRows * kFewLd * static_cast<int>(sizeof(float));

__device__ __forceinline__ float4 load4(const float* p) {
  return __ldg(reinterpret_cast<const float4*>(p));
}
__device__ __forceinline__ float part(const float4& x, int i) {
  return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w;
}

// Which of a block's shares a warp has: every `of`th chunk of k from `first` on.
struct FewShare {
  int first, of;
};

// The left side: rows [0, rows) from `data` on, of which a block's that are missing are read as the
// last one.
struct FewLeft {
  const float* data;
  int64_t step;
  int rows;

  struct Chunk {
    float4 x[8];  // rows 8·i + lane/4
  };
  __device__ __forceinline__ void load(int k, Chunk& to) const {
    const int lane = threadIdx.x % kWarp;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      to.x[i] = load4(data + min(8 * i + lane / 4, rows - 1) * step + k + lane % 4 * 4);
    }
  }
};

// The right side as weights are kept, Wᵀ: a column's k next to each other. Tile j is columns
// [first + j·apart, + 8), of `columns`.
template <int kTiles>
struct FewByK {
  const float* data;
  int64_t step;
  int first, apart, columns;

  struct Chunk {
    float4 x[kTiles];
  };
  __device__ __forceinline__ void load(int k, Chunk& to) const {
    const int lane = threadIdx.x % kWarp;
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      const int column = min(first + j * apart + lane / 4, columns - 1);
      to.x[j] = load4(data + column * step + k + lane % 4 * 4);
    }
  }
  static __device__ __forceinline__ float at(const Chunk& c, int tile, int k) {
    return part(c.x[tile], k);
  }
  // Where columns 2·c and 2·c + 1 of each tile are among the sums.
  static __device__ __forceinline__ void store(float* row, int c, const float (&x)[4][2]) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      *reinterpret_cast<float2*>(row + 8 * j + 2 * c) = {x[j][0], x[j][1]};
    }
  }
};

// The right side by rows, W itself: columns next to each other. Tile j is columns first + 4·i + j.
struct FewByColumn {
  const float* data;
  int64_t step;
  int first, columns;

  struct Chunk {
    float4 x[4];
  };
  __device__ __forceinline__ void load(int k, Chunk& to) const {
    const int lane = threadIdx.x % kWarp;
    const float* const at =
        data + (k + lane % 4 * 4) * step + min(first + lane / 4 * 4, columns - 4);
#pragma unroll
    for (int i = 0; i < 4; ++i) to.x[i] = load4(at + i * step);
  }
  static __device__ __forceinline__ float at(const Chunk& c, int tile, int k) {
    return part(c.x[k], tile);
  }
  static __device__ __forceinline__ void store(float* row, int c, const float (&x)[4][2]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      *reinterpret_cast<float4*>(row + 8 * c + 4 * i) = {x[0][i], x[1][i], x[2][i], x[3][i]};
    }
  }
};

// sum[i][j] += the product of rows 16·i … with tile j, that of the last tile to sum[i][kLast], over
// this warp's chunks of k. Returns the warp's first chunk beyond.
template <int kTiles, int kLast, class Right>
__device__ __forceinline__ int multiply_few(const FewLeft& left, const Right& right, int chunks,
                                            FewShare share, float (&sum)[4][4][4]) {
  if (share.first >= chunks) return share.first;
  FewLeft::Chunk a, next_a;
  typename Right::Chunk b, next_b;
  left.load(share.first * kFewDeep, next_a);
  right.load(share.first * kFewDeep, next_b);
  int at = share.first;
  for (; at < chunks; at += share.of) {
    a = next_a, b = next_b;
    if (at + share.of < chunks) {
      left.load((at + share.of) * kFewDeep, next_a);
      right.load((at + share.of) * kFewDeep, next_b);
    }
#pragma unroll
    for (int k = 0; k < 4; k += 2) {
      uint32_t high[kTiles][2], low[kTiles][2];
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        split_tf32(Right::at(b, j, k), high[j][0], low[j][0]);
        split_tf32(Right::at(b, j, k + 1), high[j][1], low[j][1]);
      }
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        uint32_t up[2][4], down[2][4];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const float4 &above = a.x[2 * (i + h)], &below = a.x[2 * (i + h) + 1];
          split_tf32(part(above, k), up[h][0], down[h][0]);
          split_tf32(part(below, k), up[h][1], down[h][1]);
          split_tf32(part(above, k + 1), up[h][2], down[h][2]);
          split_tf32(part(below, k + 1), up[h][3], down[h][3]);
        }
        // Eight sums in turn, so that none waits for itself.
        const auto each = [&](const uint32_t(&x)[2][4], const uint32_t(&y)[kTiles][2]) {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
#pragma unroll
            for (int j = 0; j < kTiles; ++j) {
              multiply_tf32(sum[i + h][j == kTiles - 1 ? kLast : j], x[h], y[j]);
            }
          }
        };
        each(down, high);
        each(up, low);
        each(up, high);
      }
    }
  }
  return at;
}

// The sums of the block's warps in shared memory, [64][kFewLd] from `shared` on, for all blocks of
// the cluster to read until few_done().
template <class Right>
__device__ __forceinline__ void few_sums(const float (&sum)[4][4][4], float* shared, int blocks) {
  constexpr int kAll = kFewRows * kFewLd;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float x[4][2];
#pragma unroll
      for (int j = 0; j < 4; ++j) x[j][0] = sum[i][j][2 * h], x[j][1] = sum[i][j][2 * h + 1];
      Right::store(shared + warp * kAll + (16 * i + 8 * h + lane / 4) * kFewLd, lane % 4, x);
    }
  }
  __syncthreads();
  for (int t = threadIdx.x; t < kFewRows * kFewColumns / 4; t += kFewThreads) {
    float4* const to = reinterpret_cast<float4*>(shared + t / (kFewColumns / 4) * kFewLd +
                                                 t % (kFewColumns / 4) * 4);
    float4 total = *to;
#pragma unroll
    for (int w = 1; w < kFewWarps; ++w) {
      const float4 x = to[w * kAll / 4];
      total.x += x.x, total.y += x.y, total.z += x.z, total.w += x.w;
    }
    *to = total;
  }
  __syncthreads();
  if (blocks > 1) cluster_sync();
}

// A sum over all blocks.
__device__ __forceinline__ float few_sum(const float* shared, int row, int column, int blocks) {
  const float* const at = shared + row * kFewLd + column;
  if (blocks == 1) return *at;
  float total = load_from(shared_address(at), 0);
  for (int r = 1; r < blocks; ++r) total += load_from(shared_address(at), r);
  return total;
}

// Nobody leaves before the others have read its sums.
__device__ __forceinline__ void few_done(int blocks) {
  if (blocks > 1) cluster_sync();
}

// ---- launching ----------------------------------------------------------------------------------

// How many clusters of 1, 2, 4 and 8 blocks run at once.
struct Clusters {
  int at_once[4] = {};
};
template <auto kKernel>
const Clusters& clusters_of() {
  static const Clusters found = [] {
    check(cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kFewShared),
          "asking for shared memory");
    Clusters c;
    c.at_once[0] = limits().processors;
    for (int i = 1; i < 4 && limits().hopper; ++i) {
      cudaLaunchAttribute cluster{};
      cluster.id = cudaLaunchAttributeClusterDimension;
      cluster.val.clusterDim = {1u << i, 1, 1};
      cudaLaunchConfig_t how{};
      how.gridDim = dim3(1u << i);
      how.blockDim = dim3(kFewThreads);
      how.dynamicSmemBytes = kFewShared;
      how.attrs = &cluster;
      how.numAttrs = 1;
      check(cudaOccupancyMaxActiveClusters(&c.at_once[i], kKernel, &how), "counting clusters");
    }
    return c;
  }();
  return found;
}

// How many blocks should share k, where there are `tiles` of them otherwise. A launch costs about
// what four chunks of k do.
inline int blocks_for(const Clusters& clusters, int64_t tiles, int64_t chunks) {
  int best = 1;
  int64_t least = INT64_MAX;
  for (int i = 0; i < 4; ++i) {
    if (clusters.at_once[i] == 0) continue;
    const int64_t rounds = (tiles + clusters.at_once[i] - 1) / clusters.at_once[i];
    const int64_t own = (chunks + (kFewWarps << i) - 1) / (kFewWarps << i);
    if (rounds * (4 + own) >= least) continue;
    least = rounds * (4 + own);
    best = 1 << i;
  }
  return best;
}

// Grid x is tiles, each by a cluster of blocks that share `chunks` of k; they are told how many.
template <auto kKernel, class Arg>
void launch_few(dim3 grid, int64_t chunks, const char* operation, const Arg& arg) {
  const int blocks = blocks_for(clusters_of<kKernel>(), int64_t{grid.x} * grid.y * grid.z, chunks);
  grid.x *= static_cast<unsigned>(blocks);
  launch_early(kKernel, {grid, kFewThreads, kFewShared, blocks}, operation, arg, blocks);
}

}  // namespace fovea::cuda
