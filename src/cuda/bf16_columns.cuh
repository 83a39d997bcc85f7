// Sums down the columns of bf16: gradients of biases and of norms' weights. Bound by memory.
#pragma once

#include "cuda/bf16.cuh"

namespace fovea::cuda {

// Σ_r x[r,:], or of a norm's gradient Σ dy and Σ dy·x̂.
enum class ColumnSum { plain, normed };
struct Columns {
  kernels::Bf16Rows rows;
  const bf16* x;  // dy, of a norm
  const bf16* normed = nullptr;
  const float *mean = nullptr, *rstd = nullptr;
};

// 256 columns a block, eight a lane; its warps go down a part of the rows. `to` is [parts, 2, n].
template <ColumnSum kSum>
__global__ __launch_bounds__(kThreads) void column_parts(Columns of, int64_t rows_of_part,
                                                         bool whole, float* to) {
  constexpr int kSums = kSum == ColumnSum::normed ? 2 : 1;
  __shared__ float by_warp[kSums][kThreads / 32][256];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t n = of.rows.n, c = static_cast<int64_t>(blockIdx.x) * 256 + lane * 8;
  const int64_t end = min(of.rows.count, static_cast<int64_t>(blockIdx.y + 1) * rows_of_part);
  float sum[kSums][8] = {};
  for (int64_t r = blockIdx.y * rows_of_part + warp; r < end; r += kThreads / 32) {
    float x[8];
    load_columns(of.x + r * of.rows.row, c, n, whole, x);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum[0][i] += x[i];
    if constexpr (kSum == ColumnSum::normed) {
      float y[8];
      load_columns(of.normed + r * of.rows.row, c, n, whole, y);
      const float mean = of.mean ? of.mean[r] : 0.0f, rstd = of.rstd[r];
#pragma unroll
      for (int i = 0; i < 8; ++i) sum[1][i] = fmaf(x[i], (y[i] - mean) * rstd, sum[1][i]);
    }
  }
#pragma unroll
  for (int s = 0; s < kSums; ++s) {
#pragma unroll
    for (int i = 0; i < 8; ++i) by_warp[s][warp][lane * 8 + i] = sum[s][i];
  }
  __syncthreads();
  const int64_t column = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (column >= n) return;
#pragma unroll
  for (int s = 0; s < kSums; ++s) {
    float all = 0.0f;
    for (int w = 0; w < kThreads / 32; ++w) all += by_warp[s][w][threadIdx.x];
    to[(static_cast<int64_t>(blockIdx.y) * 2 + s) * n + column] = all;
  }
}

// The parts of 32 columns a block, in a fixed order.
template <class T>
__global__ __launch_bounds__(kThreads) void join_parts(int64_t n, int64_t parts, const T* of,
                                                       int which, float* to) {
  __shared__ double by_warp[kThreads / 32][33];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * 32 + lane;
  double sum = 0.0;
  if (column < n) {
    for (int64_t p = warp; p < parts; p += kThreads / 32) sum += of[(p * 2 + which) * n + column];
  }
  by_warp[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= n) return;
  for (int w = 1; w < kThreads / 32; ++w) sum += by_warp[w][lane];
  to[column] = static_cast<float>(sum);
}

// Sums of x, and where they are wanted of x·x̂: the same parts for the same shape.
template <ColumnSum kSum>
void sum_columns(const Columns& of, float* sums, float* normed) {
  const int64_t n = of.rows.n, across = (n + 255) / 256;
  const int64_t wanted = std::max<int64_t>(1, 8 * limits().processors / across);
  const int64_t rows = std::max<int64_t>(32, (of.rows.count + wanted - 1) / wanted);
  const int64_t parts = std::max<int64_t>(1, (of.rows.count + rows - 1) / rows);
  const Scratch<float> between(static_cast<size_t>(parts * 2 * n));
  const bool whole = of.rows.row % 8 == 0 && whole_from(of.x) &&
                     (kSum == ColumnSum::plain || whole_from(of.normed));
  const dim3 grid(static_cast<unsigned>(across), static_cast<unsigned>(parts));
  column_parts<kSum><<<grid, kThreads, 0, stream()>>>(of, rows, whole, between.data());
  check_launch("sums of columns");
  const auto blocks = static_cast<unsigned>((n + 31) / 32);
  const auto join = [&](int which, float* to) {
    if (to == nullptr) return;
    join_parts<<<blocks, kThreads, 0, stream()>>>(n, parts, between.data(), which, to);
    check_launch("sums of columns");
  };
  join(0, sums);
  join(1, normed);
}

}  // namespace fovea::cuda
