// Dot products on Hopper, first kernel: q, k, v and d_context as half precision, high and low part,
// in the order in which products read them from shared memory, so that a tile is a few plain
// copies.
//
// Half precision has a small range, so all rows that share keys are multiplied by one power of two:
// the longest of them gets a norm in [2¹⁴, 2¹⁵). Each input is read once: a block keeps its rows in
// registers, adds their norm to the largest (an integer maximum, whose order does not matter) and
// waits for the others that share its keys. Blocks take their number from a counter, so that those
// waited for have always begun; where they would not fit the device together there are two passes.
//
// Bound by memory and by the wait (H200, B 1 H 16 L 4096: forward 41 µs for D 64 and 71 for D 128,
// backward 63 and 112).
#pragma once

#include "cuda/additive.cuh"
#include "cuda/hopper.cuh"

namespace fovea::cuda {

constexpr int kDotRows = 64;      // of a block here
constexpr int kDotPadding = 128;  // rows are padded to that
constexpr int kDotThreads = 256;

// Numbers of float32 are two halves of half precision, multiplied by powers of two; bf16 is
// multiplied as it is, and has the range of float32.
template <class T>
constexpr int kDotHalves = std::is_same_v<T, float> ? 2 : 1;

// What a call reads and writes, as floats or as bf16.
template <class T>
struct DotViews {
  View<const T> q, k, v, context, d_context;
  View<T> out, dq, dk, dv;
};

enum class DotInput { queries, keys, values, d_context };
enum class Passes { one, norms, halves };

struct DotPrepared {
  // [head][high, low][width / 64][rows, padded][64], by DotInput; of bf16 without low
  uint8_t* halves[4];
  // By keys' head: largest norms of q·scale·log2(e)/T, k, v, d_context, the largest |d_stat|, and
  // whether something is not finite.
  uint32_t *norms, *d_stat, *odd, *counts, *ticket;
  uint8_t* odd_rows[4];  // [head][rows], by DotInput: 0 in the halves (dot_pairs.cuh)
  int4* seen;            // [B·H][64 queries]: keys x … y that some may see, z … w that all may
  float4* rows;          // [B·H][queries, padded]: kDotWeights − log2 Σ, beta, begin, end
  const float* stat;
  int query_rows, key_rows;  // padded
  int heads;                 // of keys, in all
  __device__ float norm(DotInput of, int zk) const {
    return __uint_as_float(norms[static_cast<int>(of) * heads + zk]);
  }
};
constexpr float kDotWeights = 14.0f;  // log2 of what weights are multiplied by

__device__ __forceinline__ int heads_sharing(const AttentionProblem& p) {
  return static_cast<int>(p.H) / static_cast<int>(p.Hk);
}

// What q·k is multiplied by where it is a score in units of log 2.
__device__ __forceinline__ float score_scale(const AttentionProblem& p) {
  return p.scale * kLog2e / p.temperature;
}

// The power of two that brings a norm to [2¹⁴, 2¹⁵).
__device__ __forceinline__ float dot_factor(float norm) {
  const int e = 14 + 127 - static_cast<int>(__float_as_uint(norm) >> 23);
  return __uint_as_float(static_cast<uint32_t>(127 + min(max(e, -60), 60)) << 23);
}

// Whether eight numbers of a row can be read at once.
__device__ inline bool eights(const View<const float>& v) { return whole_rows(v); }
__device__ inline bool eights(const View<const bf16>& v) {
  return v.c == 1 && reinterpret_cast<size_t>(v.data) % 16 == 0 && v.b % 8 == 0 && v.h % 8 == 0 &&
         v.r % 8 == 0;
}

// One of the four inputs.
template <class T>
struct DotSource {
  View<const T> from;
  int heads, group, L, padded, n;
  float scale;
  __device__ DotSource(const AttentionProblem& p, const DotViews<T>& io, const DotPrepared& to,
                       DotInput of) {
    const bool queries = of == DotInput::queries || of == DotInput::d_context;
    from = of == DotInput::queries  ? io.q
           : of == DotInput::keys   ? io.k
           : of == DotInput::values ? io.v
                                    : io.d_context;
    heads = static_cast<int>(queries ? p.H : p.Hk);
    group = queries ? heads_sharing(p) : 1;
    L = static_cast<int>(queries ? p.Lq : p.Lk);
    padded = queries ? to.query_rows : to.key_rows;
    n = static_cast<int>(of == DotInput::queries || of == DotInput::keys ? p.D : p.Dv);
    scale = of == DotInput::queries && kDotHalves<T> == 2 ? score_scale(p) : 1.0f;
  }
};

// Eight numbers of a row, from column d on; 0 beyond n.
__device__ __forceinline__ void load_eight(const float* row, int64_t step, int d, int n, bool whole,
                                           float4 (&to)[2]) {
  if (whole) {
    if (d >= n) return;
    to[0] = __ldcs(reinterpret_cast<const float4*>(row + d));
    to[1] = __ldcs(reinterpret_cast<const float4*>(row + d + 4));
  } else {
    to[0] = load4(row, step, d, n, false);
    to[1] = load4(row, step, d + 4, n, false);
  }
}
__device__ __forceinline__ void load_eight(const bf16* row, int64_t step, int d, int n, bool whole,
                                           float4 (&to)[2]) {
  float x[8] = {};
  if (whole) {
    if (d < n) widen8(__ldcs(reinterpret_cast<const uint4*>(row + d)), x);
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (d + i < n) x[i] = __bfloat162float(row[(d + i) * step]);
    }
  }
  to[0] = {x[0], x[1], x[2], x[3]}, to[1] = {x[4], x[5], x[6], x[7]};
}

// Rows of a block: eight numbers a thread and row, the lanes of a row beside one another.
template <int kWidth>
struct DotRows {
  static constexpr int kAcross = kWidth / 8, kDown = kDotThreads / kAcross;
  static constexpr int kRows = kDotRows / kDown;
  float4 x[kRows][2];
  int first, column;  // this thread's
  __device__ int row(int i) const { return first + i * kDown; }

  // This thread's eight numbers of one of its rows; `base` is the head's first row.
  template <class T>
  __device__ __forceinline__ void load(const View<const T>& from, const T* base, int i, int n,
                                       bool whole, float4 (&to)[2]) const {
    load_eight(base + row(i) * from.r, from.c, column * 8, n, whole, to);
  }
  __device__ bool leads() const { return column == 0; }
};

template <int kWidth>
__device__ __forceinline__ float across(float x) {
#pragma unroll
  for (int o = kWidth / 16; o > 0; o >>= 1) x += __shfl_xor_sync(kAll, x, o);
  return x;
}
__device__ __forceinline__ float product(const float4& a, const float4& b) {
  return fmaf(a.x, b.x, fmaf(a.y, b.y, fmaf(a.z, b.z, a.w * b.w)));
}

// Row by row: beta = d_stat − d_context·context and the rest of `rows`, and the sink's gradient.
template <int kWidth, class T>
__device__ __forceinline__ void prepare_beta(const AttentionProblem& p, const AttentionGradients& g,
                                             const DotViews<T>& io, const DotPrepared& to,
                                             const DotRows<kWidth>& in, int z, int zk) {
  const int H = static_cast<int>(p.H), b = z / H, h = z % H, Dv = static_cast<int>(p.Dv);
  const bool whole = eights(io.context) && Dv % 8 == 0;
  const T* const base = row_of(io.context, b, h, 0);
#pragma unroll
  for (int i = 0; i < DotRows<kWidth>::kRows; ++i) {
    const int r = in.row(i);
    float4 context[2]{};
    if (r < p.Lq) in.load(io.context, base, i, Dv, whole, context);
    const float4 c0 = context[0], c1 = context[1];
    const auto zero = [](float4 v) { return v.x == 0 && v.y == 0 && v.z == 0 && v.w == 0; };
    const float dot = across<kWidth>(product(in.x[i][0], c0) + product(in.x[i][1], c1));
    // No context, no key seen, whatever the gradient.
    const float other = across<kWidth>(zero(c0) && zero(c1) ? 0.0f : 1.0f);
    if (!in.leads()) continue;
    const size_t at = static_cast<size_t>(z) * p.Lq + r;
    float4 row{-infinity(), 0.0f, 0.0f, 0.0f};
    if (r < p.Lq) {
      const float stat = g.stat[at], up = g.d_stat ? g.d_stat[at] : 0.0f;
      const Range keys = range_of(p, b, h, r);
      row.x = stat == -infinity() ? -infinity() : kDotWeights - stat * kLog2e;
      row.y = up - (other == 0.0f ? 0.0f : dot);
      row.z = __int_as_float(keys.begin), row.w = __int_as_float(keys.end);
      if (row.x != row.x || !finite(row.y)) to.odd[zk] = 1;
      if (g.d_stat && finite(up)) atomicMax(to.d_stat + zk, __float_as_uint(fabsf(up)));
      if (g.dsink) {
        const RowState state{stat == -infinity() ? 0.0f : stat * kLog2e, 0.0f * stat, {}};
        g.dsink[at] = stat == -infinity() ? 0.0f : sink_gradient(p, h, state, row.y);
      }
    }
    to.rows[static_cast<size_t>(z) * to.query_rows + r] = row;
  }
}

// The keys that some and that all of 64 queries may see.
__device__ __forceinline__ void prepare_seen(const AttentionProblem& p, const DotPrepared& to,
                                             int z, int tile) {
  __shared__ int4 of_warps[2];
  const int H = static_cast<int>(p.H), Lk = static_cast<int>(p.Lk), thread = threadIdx.x;
  if (thread < kDotRows) {
    const int i = tile * kDotRows + thread;
    const Range keys = range_of(p, z / H, z % H, min(i, static_cast<int>(p.Lq) - 1));
    const bool some = keys.begin < keys.end && i < p.Lq;
    const int4 mine{__reduce_min_sync(kAll, some ? keys.begin : Lk),
                    __reduce_max_sync(kAll, some ? keys.end : 0),
                    __reduce_max_sync(kAll, keys.begin), __reduce_min_sync(kAll, keys.end)};
    if (thread % kWarp == 0) of_warps[thread / kWarp] = mine;
  }
  __syncthreads();
  if (thread != 0) return;
  const int4 a = of_warps[0], b = of_warps[1];
  to.seen[static_cast<size_t>(z) * (to.query_rows / kDotRows) + tile] = {
      min(a.x, b.x), max(a.y, b.y), max(a.z, b.z), min(a.w, b.w)};
}

// The largest norm of the warp's rows. One whose squares have no finite sum is 0 from here on, and
// noted.
template <int kWidth, class T>
__device__ __forceinline__ float row_norms(const DotSource<T>& in, DotRows<kWidth>& rows,
                                           uint8_t* odd_rows, uint32_t& odd_head) {
  float most = 0.0f;
#pragma unroll
  for (int i = 0; i < DotRows<kWidth>::kRows; ++i) {
    float4 &a = rows.x[i][0], &b = rows.x[i][1];
    const float squares = across<kWidth>(product(a, a) + product(b, b));
    const bool odd = !finite(squares);
    if (odd) a = b = {};
    most = fmaxf(most, odd ? 0.0f : squares);
    if (!rows.leads() || rows.row(i) >= in.L) continue;
    odd_rows[rows.row(i)] = odd;
    if (odd) odd_head = 1;
  }
  return sqrtf(warp_max(most)) * fabsf(in.scale);
}

// The largest norm of those that share keys: with the others' where there is one pass.
__device__ __forceinline__ float shared_norm(float mine, uint32_t* norm, uint32_t* count,
                                             uint32_t blocks, Passes passes) {
  __shared__ float of_warps[kWarp], largest;
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = mine;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < static_cast<int>(blockDim.x) / kWarp; ++w) mine = fmaxf(mine, of_warps[w]);
    if (passes != Passes::halves) atomicMax(norm, __float_as_uint(mine));
    if (passes == Passes::one) {
      __threadfence();
      atomicAdd(count, 1u);  // and look without: others would wait for that
      while (*const_cast<volatile uint32_t*>(count) < blocks) __nanosleep(32);
      __threadfence();
    }
    largest = __uint_as_float(atomicMax(norm, 0u));
  }
  __syncthreads();
  return largest;
}

// bf16 as it was read, in its place.
template <int kWidth>
__device__ __forceinline__ void write_bf16(const DotSource<bf16>& in, const DotRows<kWidth>& rows,
                                           uint8_t* to, int z) {
#pragma unroll
  for (int i = 0; i < DotRows<kWidth>::kRows; ++i) {
    const int r = rows.row(i);
    const float4 a = rows.x[i][0], b = rows.x[i][1];
    const size_t block = static_cast<size_t>(z) * (kWidth / 64) + rows.column / 8;
    uint8_t* const at = to + (block * in.padded + r) * 128 + (((rows.column & 7) ^ (r & 7)) << 4);
    *reinterpret_cast<uint4*>(at) = {narrow2(a.x, a.y), narrow2(a.z, a.w), narrow2(b.x, b.y),
                                     narrow2(b.z, b.w)};
  }
}

template <int kWidth, class T>
__device__ __forceinline__ void write_halves(const DotSource<T>& in, const DotRows<kWidth>& rows,
                                             uint8_t* to, int z, float factor) {
  const size_t low = static_cast<size_t>(kWidth / 64) * in.padded * 128;
  const auto split4 = [&](float4 a, uint32_t& h0, uint32_t& h1, uint32_t& l0, uint32_t& l1) {
    split_half(a.x * factor, a.y * factor, h0, l0);
    split_half(a.z * factor, a.w * factor, h1, l1);
  };
#pragma unroll
  for (int i = 0; i < DotRows<kWidth>::kRows; ++i) {
    const int r = rows.row(i);
    uint4 high_part, low_part;
    split4(rows.x[i][0], high_part.x, high_part.y, low_part.x, low_part.y);
    split4(rows.x[i][1], high_part.z, high_part.w, low_part.z, low_part.w);
    const size_t block = static_cast<size_t>(z) * 2 * (kWidth / 64) + rows.column / 8;
    uint8_t* const at = to + (block * in.padded + r) * 128 + (((rows.column & 7) ^ (r & 7)) << 4);
    *reinterpret_cast<uint4*>(at) = high_part;
    *reinterpret_cast<uint4*>(at + low) = low_part;
  }
}

template <class T, int kWidth, bool kBackward>
__global__ __launch_bounds__(kDotThreads, 5 - kWidth / 64) void prepare_dot(
    const __grid_constant__ AttentionProblem p, const __grid_constant__ AttentionGradients g,
    const __grid_constant__ DotViews<T> io, const __grid_constant__ DotPrepared to, Passes passes) {
  __shared__ uint32_t number;
  if (threadIdx.x == 0) number = passes == Passes::one ? atomicAdd(to.ticket, 1u) : blockIdx.x;
  __syncthreads();
  using Rows = DotRows<kWidth>;
  const int queries = static_cast<int>(p.B * p.H) * (to.query_rows / kDotRows);
  const int keys = to.heads * (to.key_rows / kDotRows);
  int job = static_cast<int>(number), input = 0;
  for (int size = queries; job >= size && input < 3; size = keys, ++input) job -= size;
  const auto of = static_cast<DotInput>(input);
  const DotSource<T> in(p, io, to, of);
  const int tiles = in.padded / kDotRows, z = job / tiles, tile = job % tiles;
  const int zk = z / in.group;
  Rows rows;
  rows.column = threadIdx.x % Rows::kAcross;
  rows.first = tile * kDotRows + threadIdx.x / Rows::kAcross;
  const bool whole = eights(in.from) && in.n % 8 == 0;
  const T* const base = row_of(in.from, z / in.heads, z % in.heads, 0);
#pragma unroll
  for (int i = 0; i < Rows::kRows; ++i) {
    rows.x[i][0] = rows.x[i][1] = {};
    if (rows.row(i) < in.L) rows.load(in.from, base, i, in.n, whole, rows.x[i]);
  }
  if (passes != Passes::halves) {
    if (of == DotInput::queries) prepare_seen(p, to, z, tile);
    if constexpr (kBackward) {
      if (of == DotInput::d_context) prepare_beta(p, g, io, to, rows, z, zk);
    }
  }
  [[maybe_unused]] const float mine =
      row_norms(in, rows, to.odd_rows[input] + static_cast<size_t>(z) * in.L, to.odd[zk]);
  if constexpr (kDotHalves<T> == 1) {
    write_bf16(in, rows, to.halves[input], z);
  } else {
    const int slot = input * to.heads + zk;
    const float norm =
        shared_norm(mine, to.norms + slot, to.counts + slot, tiles * in.group, passes);
    if (passes == Passes::norms) return;
    write_halves(in, rows, to.halves[input], z, in.scale * dot_factor(norm));
  }
}

}  // namespace fovea::cuda
