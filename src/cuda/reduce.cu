#include <limits>

#include "cuda/loops.cuh"
#include "cuda/table.h"

// out[k] = Σ_r or max_r x[k, r]. Sums are taken in double: their order, which is fixed by the
// shape, does not show. Where neighbouring outputs lie next to each other a thread has one of them
// and goes down; else a block goes along each row. What is long and few is cut into pieces, whose
// results a second launch joins.
namespace fovea::cuda {
namespace {

__device__ __forceinline__ double join(Reduce op, double a, double b) {
  if (op == Reduce::sum) return a + b;
  return a > b || a != a ? a : b;
}
__device__ __forceinline__ double nothing(Reduce op) {
  return op == Reduce::sum ? 0.0 : -static_cast<double>(INFINITY);
}

struct Reduction {
  Reduce op;
  const float* x;
  int64_t pieces, piece;  // of r
  double* parts;          // [pieces, K]; null: out
  float* out;
};

__device__ __forceinline__ void put(const Reduction& how, int64_t k, int64_t piece, int64_t K,
                                    double value) {
  if (how.parts) {
    how.parts[piece * K + k] = value;
  } else {
    how.out[k] = static_cast<float>(value);
  }
}

// 32 neighbouring outputs a block, 8 warps down their rows.
__global__ __launch_bounds__(kThreads) void down_columns(Reduction how,
                                                         const __grid_constant__ Walk<1> kept,
                                                         const __grid_constant__ Walk<1> reduced) {
  __shared__ double by_warp[8][33];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t k = static_cast<int64_t>(blockIdx.x) * 32 + lane, piece = blockIdx.y;
  const int64_t end = min(reduced.numel, (piece + 1) * how.piece);
  double total = nothing(how.op);
  if (k < kept.numel) {
    int64_t at[1], row[1];
    kept.at(k, at);
    const float* const x = how.x + at[0];
    int64_t r = piece * how.piece + warp;
    if (reduced.rank == 1) {  // loads that do not wait for one another
      constexpr int kAtOnce = 8;
      const int64_t step = reduced.strides[0][0];
      for (; r + 8 * (kAtOnce - 1) < end; r += 8 * kAtOnce) {
        float some[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) some[i] = x[(r + 8 * i) * step];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) total = join(how.op, total, some[i]);
      }
    }
    for (; r < end; r += 8) {
      reduced.at(r, row);
      total = join(how.op, total, x[row[0]]);
    }
  }
  by_warp[warp][lane] = total;
  __syncthreads();
  if (warp != 0 || k >= kept.numel) return;
  for (int w = 1; w < 8; ++w) total = join(how.op, total, by_warp[w][lane]);
  put(how, k, piece, kept.numel, total);
}

// One output a block.
__global__ __launch_bounds__(kThreads) void along_rows(Reduction how,
                                                       const __grid_constant__ Walk<1> kept,
                                                       const __grid_constant__ Walk<1> reduced) {
  for (int64_t task = blockIdx.x; task < kept.numel * how.pieces; task += gridDim.x) {
    const int64_t k = task / how.pieces, piece = task % how.pieces;
    const int64_t end = min(reduced.numel, (piece + 1) * how.piece);
    int64_t at[1], row[1];
    kept.at(k, at);
    double total = nothing(how.op);
    for (int64_t r = piece * how.piece + threadIdx.x; r < end; r += kThreads) {
      reduced.at(r, row);
      total = join(how.op, total, how.x[at[0] + row[0]]);
    }
    total = over_block(total, [&](double a, double b) { return join(how.op, a, b); });
    if (threadIdx.x == 0) put(how, k, piece, kept.numel, total);
  }
}

// Short rows: a warp for each.
__global__ __launch_bounds__(kThreads) void along_short_rows(
    Reduction how, const __grid_constant__ Walk<1> kept, const __grid_constant__ Walk<1> reduced) {
  const int lane = threadIdx.x % 32;
  for (int64_t k = first_element() / 32; k < kept.numel; k += element_step() / 32) {
    int64_t at[1], row[1];
    kept.at(k, at);
    double total = nothing(how.op);
    for (int64_t r = lane; r < reduced.numel; r += 32) {
      reduced.at(r, row);
      total = join(how.op, total, how.x[at[0] + row[0]]);
    }
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) {
      total = join(how.op, total, __shfl_xor_sync(0xffffffffu, total, o));
    }
    if (lane == 0) how.out[k] = static_cast<float>(total);
  }
}

__global__ __launch_bounds__(kThreads) void join_pieces(Reduction how, int64_t K) {
  for (int64_t k = first_element(); k < K; k += element_step()) {
    double total = nothing(how.op);
    for (int64_t p = 0; p < how.pieces; ++p) total = join(how.op, total, how.parts[p * K + k]);
    how.out[k] = static_cast<float>(total);
  }
}

// The first of the largest; NaN is never larger, and what follows one is not either.
__global__ __launch_bounds__(kThreads) void find_largest(const float* x, Candidates of,
                                                         int64_t* out,
                                                         const __grid_constant__ Walk<1> kept) {
  const int lane = threadIdx.x % 32;
  for (int64_t k = first_element() / 32; k < kept.numel; k += element_step() / 32) {
    int64_t at[1];
    kept.at(k, at);
    const float* row = x + at[0];
    // A NaN in front stays the best, as it does where one goes from the first to the last.
    const float first = row[0];
    float best = first;
    int64_t where = 0;
    for (int64_t j = lane; j < of.n; j += 32) {
      const float v = row[j * of.step];
      if (v > best) best = v, where = j;
    }
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) {
      const float v = __shfl_xor_sync(0xffffffffu, best, o);
      const int64_t j = __shfl_xor_sync(0xffffffffu, where, o);
      if (v > best || (v == best && j < where)) best = v, where = j;
    }
    if (lane == 0) out[k] = first != first ? 0 : where;
  }
}

}  // namespace

void reduce(Reduce op, Axes kept_axes, Axes reduced_axes, const float* x, float* out) {
  const int64_t *kept_strides[] = {kept_axes.strides}, *reduced_strides[] = {reduced_axes.strides};
  const Walk<1> kept(kept_axes.sizes, kept_strides), reduced(reduced_axes.sizes, reduced_strides);
  const int64_t K = kept.numel, R = reduced.numel;
  if (K == 0) return;
  if (R == 0) {
    const float empty = op == Reduce::sum ? 0.0f : -std::numeric_limits<float>::infinity();
    return fill(K, empty, out);
  }
  const bool columns = kept.strides[0][kept.rank - 1] == 1 && kept.sizes[kept.rank - 1] >= 8 &&
                       reduced.strides[0][reduced.rank - 1] != 1;
  Reduction how{op, x, 1, R, nullptr, out};
  if (!columns && R <= 256) {
    along_short_rows<<<grid_for(K * 32), kThreads, 0, stream()>>>(how, kept, reduced);
    return check_launch("reduce");
  }
  const int64_t tasks = columns ? (K + 31) / 32 : K;
  const int64_t wanted = (columns ? 16 : 4) * limits().processors, least = columns ? 128 : 256;
  how.pieces = std::clamp<int64_t>(wanted / tasks, 1, (R + least - 1) / least);
  how.piece = (R + how.pieces - 1) / how.pieces;
  how.pieces = (R + how.piece - 1) / how.piece;
  const Scratch<double> parts(how.pieces > 1 ? static_cast<size_t>(how.pieces * K) : 0);
  how.parts = parts.data();
  if (columns) {
    const dim3 grid(static_cast<unsigned>(tasks), static_cast<unsigned>(how.pieces));
    down_columns<<<grid, kThreads, 0, stream()>>>(how, kept, reduced);
  } else {
    const auto grid = static_cast<unsigned>(std::min<int64_t>(K * how.pieces, 1 << 20));
    along_rows<<<grid, kThreads, 0, stream()>>>(how, kept, reduced);
  }
  check_launch("reduce");
  if (how.pieces == 1) return;
  join_pieces<<<grid_for(K), kThreads, 0, stream()>>>(how, K);
  check_launch("reduce");
}

void argmax(Axes kept_axes, Candidates of, const float* x, int64_t* out) {
  const int64_t* strides[] = {kept_axes.strides};
  const Walk<1> kept(kept_axes.sizes, strides);
  if (kept.numel == 0) return;
  find_largest<<<grid_for(kept.numel * 32), kThreads, 0, stream()>>>(x, of, out, kept);
  check_launch("the largest of rows");
}

}  // namespace fovea::cuda
