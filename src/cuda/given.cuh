// Scores that are given, and gradients of nothing.
#pragma once

#include "cuda/chunks.cuh"

namespace fovea::cuda {

// c.e ← masked scores of a chunk.
static __global__ __launch_bounds__(256) void score_given(
    const __grid_constant__ AttentionProblem p, const __grid_constant__ Chunk c) {
  const size_t all = static_cast<size_t>(c.heads) * c.rows * c.padded_keys;
  const int H = static_cast<int>(p.H), Lk = static_cast<int>(p.Lk);
  const float factor = p.scale / p.temperature;
  for (size_t t = blockIdx.x * size_t{256} + threadIdx.x; t < all; t += gridDim.x * size_t{256}) {
    const int j = static_cast<int>(t % c.padded_keys), r = static_cast<int>(t / c.padded_keys);
    const int head = r / c.rows, i = r % c.rows, z = c.z + head;
    RowAt at{z / H, z % H, c.row + i, {}};
    at.keys = range_of(p, at.b, at.h, at.i);
    float e = -infinity();
    if (j < Lk) {
      const float raw = row_of(p.given, at.b, at.h, at.i)[j * p.given.c] * factor;
      e = masked(p, at, j, raw, 1.0f);
      if (has_further(p)) e = masked_further(p, at, j, e, 1.0f);
    }
    c.e[c.at(head, i) + j] = e;
  }
}

static __global__ __launch_bounds__(256) void clear_view(View<float> to, int64_t H, int64_t R,
                                                         int64_t C, int64_t n) {
  for (int64_t t = blockIdx.x * int64_t{256} + threadIdx.x; t < n; t += gridDim.x * int64_t{256}) {
    const int64_t c = t % C, r = t / C % R, h = t / C / R % H, b = t / C / R / H;
    to.data[b * to.b + h * to.h + r * to.r + c * to.c] = 0.0f;
  }
}

}  // namespace fovea::cuda
