#include "cuda/launch.cuh"
#include "cuda/table.h"
#include "cuda/tf32.cuh"

// C = alpha·A·B + bias + plus for many rows, in float32 on tensor cores (tf32.cuh).
//
// A block of four warps has 128 × 64 of C, each warp 64 × 32, two blocks a processor; k comes 32 at
// a time through three stages in shared memory. What the tensor cores sum goes over to float adds
// after every stage. Where there are few tiles the blocks of a cluster share k, and add up in a
// fixed order.
namespace fovea::cuda {
namespace {

constexpr int kRows = 128, kColumns = 64, kDepth = 32, kStages = 3;
constexpr int kWideThreads = 128;

// One side of a stage: kSize rows (or columns) by kDepth. By k: [kSize][40], of which a thread
// reads pairs of k; else [kDepth][kSize + 4].
template <int kSize, bool kByK>
struct Side {
  static constexpr int kLd = kByK ? kDepth + 8 : kSize + 4;
  static constexpr int kFloats = kByK ? kSize * kLd : kDepth * kLd;
  const float* data;
  int64_t step;     // from a row to the next, or from k to the next
  int first, size;  // of the matrix: where the tile begins, and where rows end
  int depth;        // k of the matrix

  __device__ __forceinline__ void load(float* to, int k0) const {
    constexpr int kQuads = kSize * kDepth / 4, kAcross = kByK ? kDepth / 4 : kSize / 4;
#pragma unroll
    for (int i = 0; i < kQuads / kWideThreads; ++i) {
      const int t = i * kWideThreads + threadIdx.x, down = t / kAcross, right = t % kAcross * 4;
      if constexpr (kByK) {
        const int row = min(first + down, size - 1), k = k0 + right;
        copy16(to + down * kLd + right, data + row * step + min(k, depth - 4), k < depth);
      } else {
        const int k = k0 + down, row = min(first + right, size - 4);
        copy16(to + down * kLd + right, data + min(k, depth - 1) * step + row, k < depth);
      }
    }
  }
  // Elements k, k + 1 of a row of the tile.
  static __device__ __forceinline__ float2 pair(const float* stage, int row, int k) {
    if constexpr (kByK) return *reinterpret_cast<const float2*>(stage + row * kLd + k);
    return {stage[k * kLd + row], stage[(k + 1) * kLd + row]};
  }
};

template <bool kLeftByK, bool kRightByK>
struct Tiles {
  using Left = Side<kRows, kLeftByK>;
  using Right = Side<kColumns, kRightByK>;
  static constexpr int kStage = Left::kFloats + Right::kFloats;
  static constexpr int kLd = kColumns + 4;  // of the sums, which take the stages' place
  static constexpr int kShared =
      std::max(kStages * kStage, kRows* kLd) * static_cast<int>(sizeof(float));
};

// sum[i][j] += rows 16·i … times columns 8·j … of the warp's part of a stage.
template <class T>
__device__ __forceinline__ void multiply_stage(const float* stage, float (&sum)[4][4][4]) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int row = warp / 2 * 64 + lane / 4, column = warp % 2 * 32 + lane / 4;
  const float* const right = stage + T::Left::kFloats;
  float fresh[4][4][4] = {};
#pragma unroll
  for (int k = 0; k < kDepth; k += 8) {
    const int at = k + lane % 4 * 2;
    uint32_t high[4][2], low[4][2];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float2 b = T::Right::pair(right, column + 8 * j, at);
      split_tf32(b.x, high[j][0], low[j][0]);
      split_tf32(b.y, high[j][1], low[j][1]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 a = T::Left::pair(stage, row + 16 * i, at);
      const float2 below = T::Left::pair(stage, row + 16 * i + 8, at);
      uint32_t up[4], down[4];
      split_tf32(a.x, up[0], down[0]);
      split_tf32(below.x, up[1], down[1]);
      split_tf32(a.y, up[2], down[2]);
      split_tf32(below.y, up[3], down[3]);
#pragma unroll
      for (int j = 0; j < 4; ++j) multiply_tf32(fresh[i][j], down, high[j]);
#pragma unroll
      for (int j = 0; j < 4; ++j) multiply_tf32(fresh[i][j], up, low[j]);
#pragma unroll
      for (int j = 0; j < 4; ++j) multiply_tf32(fresh[i][j], up, high[j]);
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[i][j][e] += fresh[i][j][e];
    }
  }
}

template <bool kLeftByK, bool kRightByK>
__global__ __launch_bounds__(kWideThreads, 2) void multiply_wide(const __grid_constant__ Gemm g,
                                                                 int blocks) {
  using T = Tiles<kLeftByK, kRightByK>;
  extern __shared__ __align__(16) float wide_shared[];
  const int rank = blockIdx.x % blocks, m = static_cast<int>(g.m), n = static_cast<int>(g.n);
  const int row = static_cast<int>(blockIdx.x) / blocks * kRows;
  const int column = static_cast<int>(blockIdx.y) * kColumns, depth = static_cast<int>(g.k);
  const typename T::Left left{g.a, kLeftByK ? g.a_row : g.a_col, row, m, depth};
  const typename T::Right right{static_cast<const float*>(g.b), kRightByK ? g.b_col : g.b_row,
                                column, n, depth};
  const int all = parts(depth, kDepth), begin = all * rank / blocks,
            end = all * (rank + 1) / blocks;
  const auto fetch = [&](int s) {
    if (s < end) {
      float* const to = wide_shared + s % kStages * T::kStage;
      left.load(to, s * kDepth);
      right.load(to + T::Left::kFloats, s * kDepth);
    }
    copies_commit();
  };
  float sum[4][4][4] = {};
  wait_for_earlier();
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) fetch(begin + s);
  for (int s = begin; s < end; ++s) {
    copies_wait<kStages - 2>();
    __syncthreads();
    fetch(s + kStages - 1);
    multiply_stage<T>(wide_shared + s % kStages * T::kStage, sum);
  }
  copies_wait<0>();
  __syncthreads();

  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  float* const own =
      wide_shared + (warp / 2 * 64 + lane / 4) * T::kLd + warp % 2 * 32 + lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float* const to = own + 16 * i * T::kLd + 8 * j;
      *reinterpret_cast<float2*>(to) = {sum[i][j][0], sum[i][j][1]};
      *reinterpret_cast<float2*>(to + 8 * T::kLd) = {sum[i][j][2], sum[i][j][3]};
    }
  }
  __syncthreads();
  if (blocks > 1) cluster_sync();
  const int share = kRows / blocks, c = column + static_cast<int>(threadIdx.x) % kColumns;
  const float bias = g.bias && c < n ? g.bias[c] : 0.0f;
#pragma unroll 4
  for (int i = threadIdx.x / kColumns; i < share; i += kWideThreads / kColumns) {
    const int r = rank * share + i;
    if (row + r >= m || c >= n) continue;
    const float* const at = wide_shared + r * T::kLd + c - column;
    float total = *at;
    if (blocks > 1) {
      total = load_from(shared_address(at), 0);
      for (int b = 1; b < blocks; ++b) total += load_from(shared_address(at), b);
    }
    const int64_t place = static_cast<int64_t>(row + r);
    const float added = bias + (g.plus ? g.plus[place * g.plus_row + c] : 0.0f);
    g.c[place * g.c_row + c] = fmaf(g.alpha, total, added);
  }
  if (blocks > 1) cluster_sync();  // nobody leaves before the others have read its sums
}

template <bool kLeftByK, bool kRightByK>
void launch(const Gemm& g) {
  constexpr auto kKernel = multiply_wide<kLeftByK, kRightByK>;
  constexpr int kShared = Tiles<kLeftByK, kRightByK>::kShared;
  static const cudaError_t roomy =
      cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  check(roomy, "product");
  dim3 grid(static_cast<unsigned>(parts(static_cast<int>(g.m), kRows)),
            static_cast<unsigned>(parts(static_cast<int>(g.n), kColumns)));
  // Two blocks fit a processor.
  const int64_t tiles = int64_t{grid.x} * grid.y, room = int64_t{2} * limits().processors;
  int blocks = 1;
  while (limits().hopper && blocks < 8 && tiles * blocks * 3 <= room * 2 &&
         g.k >= 8 * kDepth * blocks) {
    blocks *= 2;
  }
  grid.x *= static_cast<unsigned>(blocks);
  launch_early(kKernel, {grid, kWideThreads, kShared, blocks}, "product", g, blocks);
}

}  // namespace

bool multiply_many_rows(const Gemm& g) {
  constexpr int64_t kMost = int64_t{1} << 30;
  if (g.batch != 1 || g.m < kRows || g.n < kColumns || g.k < 2 * kDepth) return false;
  if (g.m > kMost || g.n > kColumns * int64_t{65535} || g.k > kMost || g.k % 4 != 0) return false;
  const bool left_by_k = g.a_col == 1, right_by_k = g.b_row == 1;
  if (left_by_k ? !aligned16(g.a, g.a_row)
                : g.a_row != 1 || g.m % 4 != 0 || !aligned16(g.a, g.a_col)) {
    return false;
  }
  if (right_by_k ? !aligned16(g.b, g.b_col)
                 : g.b_col != 1 || g.n % 4 != 0 || !aligned16(g.b, g.b_row)) {
    return false;
  }
  if (!left_by_k && right_by_k) return false;
  if (!left_by_k) {
    launch<false, false>(g);
  } else if (right_by_k) {
    launch<true, true>(g);
  } else {
    launch<true, false>(g);
  }
  return true;
}

}  // namespace fovea::cuda
