// The gradient of a bias, whose strides may be 0 or overlap.
#pragma once

#include "cuda/rows.cuh"

namespace fovea::cuda {

// dbias += ds/T of some rows of some heads, ds[head][padded][step].
struct BiasSum {
  const float* ds;
  int z, heads, row, rows, padded, step;
  View<float> to;
  int64_t low, span;
  float scale;
};

// Dimensions of `to` that are apart: every element has one (b, h, i, j) of those, and sums over the
// others, whose stride is 0.
struct BiasDims {
  int H, b0, nb, Lk;  // batch elements that the heads belong to
  bool b, h, r, c;    // apart
};

// One thread an element of the dimensions that are apart; z are whole batch elements, or one head.
__global__ __launch_bounds__(256) void sum_bias(const __grid_constant__ BiasSum x,
                                                const __grid_constant__ BiasDims d) {
  const int heads = x.heads / d.nb, h0 = x.z % d.H;
  const int nb = d.b ? d.nb : 1, nh = d.h ? heads : 1, nr = d.r ? x.rows : 1, nc = d.c ? d.Lk : 1;
  const size_t all = static_cast<size_t>(nb) * nh * nr * nc;
  for (size_t t = blockIdx.x * size_t{256} + threadIdx.x; t < all; t += gridDim.x * size_t{256}) {
    const int c = static_cast<int>(t % nc), r = static_cast<int>(t / nc % nr);
    const int h = static_cast<int>(t / nc / nr % nh), b = static_cast<int>(t / nc / nr / nh);
    float sum = 0.0f;
    for (int ib = b; ib < (d.b ? b + 1 : d.nb); ++ib) {
      for (int ih = h; ih < (d.h ? h + 1 : heads); ++ih) {
        for (int ir = r; ir < (d.r ? r + 1 : x.rows); ++ir) {
          const float* ds = x.ds + (static_cast<size_t>(ib * heads + ih) * x.padded + ir) * x.step;
          for (int j = c; j < (d.c ? c + 1 : d.Lk); ++j) sum += ds[j];
        }
      }
    }
    row_of(x.to, d.b0 + b, h0 + h, x.row + r)[c * x.to.c] += x.scale * sum;
  }
}

// Any strides, as those of a bias by distance: one thread an element of the span, which looks for
// all that is added there. Slow where heads have elements of their own.
__global__ __launch_bounds__(256) void sum_overlapping_bias(const __grid_constant__ BiasSum x,
                                                            const __grid_constant__ BiasDims d) {
  const int64_t t = x.low + blockIdx.x * int64_t{256} + threadIdx.x;
  if (t >= x.low + x.span) return;
  float sum = 0.0f;
  for (int head = 0; head < x.heads; ++head) {
    const int b = (x.z + head) / d.H, h = (x.z + head) % d.H;
    for (int r = 0; r < x.rows; ++r) {
      const int64_t left = t - b * x.to.b - h * x.to.h - (x.row + r) * x.to.r;
      const float* ds = x.ds + (static_cast<size_t>(head) * x.padded + r) * x.step;
      if (x.to.c == 0) {
        for (int j = 0; j < d.Lk && left == 0; ++j) sum += ds[j];
      } else if (left % x.to.c == 0 && left / x.to.c >= 0 && left / x.to.c < d.Lk) {
        sum += ds[left / x.to.c];
      }
    }
  }
  x.to.data[t] += x.scale * sum;
}

}  // namespace fovea::cuda
