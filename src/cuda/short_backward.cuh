// The short path backward, two kernels and the sums: one computes weights again and makes of them
// the gradients of the scores, the other dq, dk, du and dv of those. H200, B 128 Lq 10 Lk 128 A
// 1024: 180 µs, bound like the forward pass by reads of k and v and by issue slots, about half
// each.
#pragma once

#include "cuda/short_scores.cuh"

namespace fovea::cuda {

// Matrices [B·H][Lq][padded_keys] between the two.
struct ShortGradients {
  float* w;       // weights after dropout
  float* g;       // of the scores
  float* ds;      // the same before the cap's slope; may be null
  float* totals;  // [block]: Σ g
  View<const float> context, d_context;
  const float* d_stat;
  float* dsink;
};

template <int kRows>
inline size_t short_scores_shared(const ShortCall& s) {
  return sizeof(float) *
         (ShortRows<kRows>::floats(s, kRows * s.lanes_width) + kRows * s.value_width);
}

// d_context of the block's rows into shared memory, and beta = d_stat − d_context·context.
template <int kRows>
__device__ __forceinline__ void short_upstream(const ShortCall& s, const ShortGradients& g,
                                               const ShortAt& at, float* d_out,
                                               float (&betas)[kRows]) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  for (int i = warp; i < kRows; i += kShortWarps) {
    float dot = 0.0f;
    bool zero = true;
    for (int d = lane * 4; d < s.value_width; d += 4 * kWarp) {
      float4 o{};
      if (i < at.rows) {
        o = *reinterpret_cast<const float4*>(row_of(g.d_context, at.b, at.h, at.i0 + i) + d);
        const float4 c =
            *reinterpret_cast<const float4*>(row_of(g.context, at.b, at.h, at.i0 + i) + d);
        dot += o.x * c.x + o.y * c.y + o.z * c.z + o.w * c.w;
        zero = zero && c.x == 0.0f && c.y == 0.0f && c.z == 0.0f && c.w == 0.0f;
      }
      *reinterpret_cast<float4*>(d_out + i * s.value_width + d) = o;
    }
    dot = warp_sum(dot);
    zero = __all_sync(kAll, zero);
    if (lane == 0) {
      const size_t row = static_cast<size_t>(at.z) * s.p.Lq + at.i0 + i;
      betas[i] = (g.d_stat && i < at.rows ? g.d_stat[row] : 0.0f) - (zero ? 0.0f : dot);
    }
  }
}

// The gradients of the weights of kShortKeys keys from j0 on, each lane's part.
template <int kRows>
__device__ __forceinline__ void short_weight_gradients(const ShortCall& s, const ShortAt& at,
                                                       const float* d_out, int j0, bool seen,
                                                       float (&dw)[kRows * kShortKeys]) {
  const AttentionProblem& p = s.p;
  const int lane = threadIdx.x % kWarp, Lk = static_cast<int>(p.Lk);
  const float* const values = row_of(p.v, at.b, at.hk, 0);
  int from[kShortKeys];
#pragma unroll
  for (int n = 0; n < kShortKeys; ++n) {
    from[n] = min(j0 + n, Lk - 1) * static_cast<int>(p.v.r);
  }
#pragma unroll
  for (int t = 0; t < kRows * kShortKeys; ++t) dw[t] = 0.0f;
#pragma unroll 1
  for (int d = lane * 4; d < s.value_width && seen; d += 4 * kWarp) {
    float4 v[kShortKeys];
#pragma unroll
    for (int n = 0; n < kShortKeys; ++n) {
      v[n] = __ldg(reinterpret_cast<const float4*>(values + from[n] + d));
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const float4 o = *reinterpret_cast<const float4*>(d_out + i * s.value_width + d);
#pragma unroll
      for (int n = 0; n < kShortKeys; ++n) {
        float& sum = dw[i * kShortKeys + n];
        sum = fmaf(o.x, v[n].x, fmaf(o.y, v[n].y, fmaf(o.z, v[n].z, fmaf(o.w, v[n].w, sum))));
      }
    }
  }
}

// A pair: where it lies, its score, the gradient of its weight, and its row's.
struct ShortPair {
  RowAt row;
  int z, j;
  float e, dw, beta;
};

// Its weight and the gradient of its score into memory; that gradient.
__device__ __forceinline__ float short_write_pair(const ShortCall& s, const ShortGradients& g,
                                                  const Dropout& dropout, const RowState& state,
                                                  const ShortPair& x) {
  const size_t to = (static_cast<size_t>(x.z) * s.p.Lq + x.row.i) * s.padded_keys + x.j;
  if (x.j >= s.p.Lk) {
    g.w[to] = g.g[to] = 0.0f;
    return 0.0f;
  }
  const float weight = weight_of(x.e, state), factor = factor_of(dropout, state.noise, x.j);
  float ds = score_gradient(weight, factor, x.dw, x.beta);
  if (g.ds) g.ds[to] = ds;
  if (s.p.softcap > 0.0f && ds != 0.0f) ds *= cap_slope(s.p, x.row, x.j, x.e);
  g.w[to] = weight * factor;
  g.g[to] = ds;
  return ds;
}

template <int kRows>
__global__ __launch_bounds__(kShortThreads, 1) void short_score_gradients(
    const __grid_constant__ ShortCall s, const __grid_constant__ ShortGradients g,
    const __grid_constant__ Dropout dropout) {
  using Sums = WarpSums<kRows * kShortKeys>;
  extern __shared__ float4 shared[];
  __shared__ ShortRanges<kRows> ranges;
  __shared__ RowState states[kRows];
  __shared__ float betas[kRows], of_warps[kShortWarps];
  const AttentionProblem& p = s.p;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, Lk = static_cast<int>(p.Lk);
  const ShortAt at = short_at<kRows>(p, blockIdx.y, blockIdx.x * kRows);
  ShortRows<kRows> rows;
  float* const d_out =  // [row][value_width]
      rows.lay(s, reinterpret_cast<float*>(shared), kRows * s.lanes_width);
  const float2 line = short_queries<kRows>(s, at, rows, ranges);
  short_scores<kRows>(s, at, rows, ranges, line);
  short_upstream<kRows>(s, g, at, d_out, betas);
  __syncthreads();
  for (int i = warp; i < at.rows; i += kShortWarps) {
    const Sum sum = short_softmax<kRows>(s, rows, i, at.h, lane);
    if (lane != 0) continue;
    states[i] = {sum.m, log_sum_of(sum),
                 dropout.below ? noise_of(p, at.b, at.h, at.i0 + i) : RandomKey{}};
    if (g.dsink) {
      g.dsink[static_cast<size_t>(at.z) * p.Lq + at.i0 + i] =
          sink_gradient(p, at.h, states[i], betas[i]);
    }
  }
  __syncthreads();
  float total = 0.0f;
  for (int j0 = warp * kShortKeys; j0 < Lk; j0 += kShortWarps * kShortKeys) {
    float dw[kRows * kShortKeys];
    const bool seen = j0 < ranges.all.end && j0 + kShortKeys > ranges.all.begin;
    short_weight_gradients<kRows>(s, at, d_out, j0, seen, dw);
    Sums::run(dw, lane);
#pragma unroll
    for (int t = 0; t < Sums::kKept; ++t) {
      const int id = Sums::index(t, lane), i = id / kShortKeys, j = j0 + id % kShortKeys;
      if (id < 0 || i >= at.rows || j >= s.padded_keys) continue;
      const RowAt row{at.b, at.h, at.i0 + i, {}};
      total += short_write_pair(s, g, dropout, states[i],
                                {row, at.z, j, rows.e[i * s.padded_keys + j], dw[t], betas[i]});
    }
  }
  total = warp_sum(total);
  if (lane == 0) of_warps[warp] = total;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < kShortWarps; ++w) total += of_warps[w];
  g.totals[blockIdx.y * gridDim.x + blockIdx.x] = total;
}

// Where gradients go: views, or parts [chunk of rows][B·H][Lk][step] to be summed.
struct ShortOutputs {
  View<float> dq, dk, dv;
  float *dk_parts, *dv_parts;  // null: into the views
  int dk_step, dv_step;
  float* gr;  // [B·H][chunk][lanes_width]
  const float *w, *g;
  View<const float> d_context;
};

// kTall warps split the rows of a block, kRows each; kWide groups of them the keys.
template <int kRows, int kTall, int kWide>
inline size_t short_gradients_shared(const ShortCall& s) {
  constexpr size_t kWarps = kTall * kWide;
  const size_t keys = static_cast<size_t>(kWide) * round_up(parts(int(s.p.Lk), kWide), 4);
  const size_t exchange = std::max((kTall > 1 ? 2 : 0) * kWarps * 4 * 64, kWarps * kRows * 64);
  const size_t of_scores = kRows * kTall * keys + exchange;
  const size_t of_values = size_t{kRows * kTall} * (128 + round_up(int(s.p.Lk), 8));
  return sizeof(float) * std::max(of_scores, of_values);
}

// Two numbers of a row of n.
__device__ __forceinline__ void store2(float* row, int64_t stride, int at, int n, float2 x) {
  if (at < n) row[at * stride] = x.x;
  if (at + 1 < n) row[(at + 1) * stride] = x.y;
}

// dv[j][d] = Σ_i w_ij·do_id of 128 columns.
template <int kAllRows, int kThreads>
__device__ void short_value_gradients(const ShortCall& s, const ShortOutputs& out, int z, int chunk,
                                      int d0, float* shared) {
  const AttentionProblem& p = s.p;
  const int tid = threadIdx.x, warp = tid / kWarp, lane = tid % kWarp, H = static_cast<int>(p.H);
  const int Lk = static_cast<int>(p.Lk), padded = round_up(Lk, 8), r0 = chunk * kAllRows;
  const int rows = min(kAllRows, static_cast<int>(p.Lq) - r0), b = z / H, h = z % H;
  float* const d_out = shared;              // [rows][128]
  float* const w = d_out + kAllRows * 128;  // [rows][padded]
  for (int t = tid * 4; t < rows * 128; t += kThreads * 4) {
    const int d = d0 + t % 128;
    const float* const from = row_of(out.d_context, b, h, r0 + t / 128);
    *reinterpret_cast<float4*>(d_out + t) =
        d < s.value_width ? *reinterpret_cast<const float4*>(from + d) : float4{};
  }
  for (int i = warp; i < rows; i += kThreads / kWarp) {
    const float* const from = out.w + (static_cast<size_t>(z) * p.Lq + r0 + i) * s.padded_keys;
    for (int j = lane; j < padded; j += kWarp) w[i * padded + j] = j < Lk ? from[j] : 0.0f;
  }
  __syncthreads();
  const int d = d0 + lane * 4;
  float* const to =
      out.dv_parts ? out.dv_parts + (static_cast<size_t>(chunk) * p.B * p.H + z) * Lk * out.dv_step
                   : row_of(out.dv, b, h, 0);  // heads share no keys then
  const int64_t step = out.dv_parts ? out.dv_step : out.dv.r;
  const bool whole = out.dv_parts || (whole_rows(out.dv) && p.Dv % 4 == 0);
  for (int j0 = warp * 8; j0 < Lk; j0 += kThreads / kWarp * 8) {
    float4 sum[8];
#pragma unroll
    for (int n = 0; n < 8; ++n) sum[n] = {};
    const auto add = [&](float4& x, float weight, float4 o) {
      x = {fmaf(weight, o.x, x.x), fmaf(weight, o.y, x.y), fmaf(weight, o.z, x.z),
           fmaf(weight, o.w, x.w)};
    };
#pragma unroll 2
    for (int i = 0; i < rows; ++i) {
      const float4 o = *reinterpret_cast<const float4*>(d_out + i * 128 + lane * 4);
      const float4 w0 = *reinterpret_cast<const float4*>(w + i * padded + j0);
      const float4 w1 = *reinterpret_cast<const float4*>(w + i * padded + j0 + 4);
      const float weight[8] = {w0.x, w0.y, w0.z, w0.w, w1.x, w1.y, w1.z, w1.w};
#pragma unroll
      for (int n = 0; n < 8; ++n) add(sum[n], weight[n], o);
    }
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const int j = j0 + n;
      if (j >= Lk) continue;
      float4 x = sum[n];
      if (!finite(x.x) || !finite(x.y) || !finite(x.z) || !finite(x.w)) {  // unseen rows count not
        x = {};
        for (int i = 0; i < rows; ++i) {
          if (w[i * padded + j] == 0.0f) continue;
          add(x, w[i * padded + j], *reinterpret_cast<const float4*>(d_out + i * 128 + lane * 4));
        }
      }
      if (whole) {
        if (d < s.value_width) *reinterpret_cast<float4*>(to + j * step + d) = x;
      } else {
        store2(to + j * step, out.dv.c, d, static_cast<int>(p.Dv), {x.x, x.y});
        store2(to + j * step, out.dv.c, d + 2, static_cast<int>(p.Dv), {x.z, x.w});
      }
    }
  }
}

// Blocks of 64 features, two a lane: dq, dk and Σ g·r, as in gradients.cuh. Where some q is far
// (additive.cuh), and for one row, which uses no exponential twice, terms come from q + k: then x
// holds q and y holds k.
template <int kRows, int kTall, int kWide>
struct ShortFeatures {
  static constexpr int kWarps = kTall * kWide, kAllRows = kRows * kTall;
  const ShortCall& s;
  const ShortOutputs& out;
  const AttentionProblem& p;
  int tid, warp, lane, z, chunk, b, h, r0, Lq, Lk, D, per, keys, a, tall, wide;
  bool inside;
  const float* k;
  float *gs, *others;  // [row][key], zeros at the ends; what warps exchange
  float2 u, next[4], x[kRows], dq[kRows], gr{}, limit{};
  // Where dk goes; parts are multiplied by u when they are summed.
  float* dk_to;
  int64_t dk_row;
  bool dk_pairs, dk_wanted;
  float2 dk_u;

  __device__ __forceinline__ ShortFeatures(const ShortCall& call, const ShortOutputs& to,
                                           float* shared)
      : s(call), out(to), p(call.p), tid(threadIdx.x), gs(shared) {
    warp = tid / kWarp, lane = tid % kWarp, z = blockIdx.y, chunk = blockIdx.z;
    const int H = static_cast<int>(p.H);
    Lq = static_cast<int>(p.Lq), Lk = static_cast<int>(p.Lk), D = static_cast<int>(p.D);
    b = z / H, h = z % H, r0 = chunk * kAllRows;
    const int hk = h / (H / static_cast<int>(p.Hk));
    per = round_up(parts(Lk, kWide), 4), keys = kWide * per;
    others = gs + kAllRows * keys;
    a = blockIdx.x * 64 + lane * 2, tall = warp % kTall, wide = warp / kTall;
    inside = a < s.width;
    k = row_of(p.k, b, hk, 0) + (inside ? a : 0);
    const float scale = 4.0f * p.scale / p.temperature;
    u = {a < D ? scale * p.u[a] : 0.0f, a + 1 < D ? scale * p.u[a + 1] : 0.0f};
    dk_to = out.dk_parts
                ? out.dk_parts + (static_cast<size_t>(chunk) * p.B * H + z) * Lk * out.dk_step
                : row_of(out.dk, b, h, 0);
    dk_row = out.dk_parts ? out.dk_step : out.dk.r;
    dk_pairs = out.dk_parts || (whole_rows(out.dk) && D % 2 == 0);
    dk_wanted = out.dk_parts || out.dk.data;
    dk_u = out.dk_parts ? float2{1.0f, 1.0f} : u;
  }

  __device__ __forceinline__ float2 load_key(int j) const {
    return __ldg(reinterpret_cast<const float2*>(k + min(j, Lk - 1) * static_cast<int>(p.k.r)));
  }
  __device__ __forceinline__ void write_key(int j, float2 dk) const {
    dk = {dk.x * dk_u.x, dk.y * dk_u.y};
    if (!dk_wanted || !inside || j >= Lk) return;
    if (dk_pairs) {
      *reinterpret_cast<float2*>(dk_to + j * dk_row + a) = dk;
    } else {
      store2(dk_to + j * dk_row, out.dk.c, a, D, dk);
    }
  }

  // The first keys, queries and the gradients of the scores; whether x is left as q.
  __device__ __forceinline__ bool load() {
#pragma unroll
    for (int n = 0; n < 4; ++n) next[n] = load_key(wide * per + n);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int r = r0 + tall * kRows + i;
      dq[i] = {};
      x[i] = {};
      if (r < Lq && inside) x[i] = *reinterpret_cast<const float2*>(row_of(p.q, b, h, r) + a);
    }
    for (int i = warp; i < kAllRows; i += kWarps) {
      const float* const from = out.g + (static_cast<size_t>(z) * Lq + r0 + i) * s.padded_keys;
      for (int j = lane * 4; j < keys; j += 4 * kWarp) {
        *reinterpret_cast<float4*>(gs + i * keys + j) =
            r0 + i < Lq && j < s.padded_keys ? *reinterpret_cast<const float4*>(from + j)
                                             : float4{};
      }
    }
    bool far = kRows == 1;
#pragma unroll
    for (int i = 0; i < kRows; ++i) far = far || fabsf(x[i].x) > kFar || fabsf(x[i].y) > kFar;
    if (__syncthreads_or(far)) return true;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      x[i] = {exp_twice(x[i].x), exp_twice(x[i].y)};
      limit = {fmaxf(limit.x, x[i].x), fmaxf(limit.y, x[i].y)};
    }
    limit = {limit_of(limit.x), limit_of(limit.y)};
    return false;
  }

  // The sums of this warp's rows and four keys from j0 on, y of the second feature first.
  template <Terms kTerms>
  __device__ __forceinline__ void add(int j0, const float2 (&y)[4], float2 (&dk)[4]) {
    const float* const g_at = gs + tall * kRows * keys + j0;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const float4 g4 = *reinterpret_cast<const float4*>(g_at + i * keys);
      const float g[4] = {g4.x, g4.y, g4.z, g4.w};
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const float x0 = fmaf(x[i].x, y[n].y, 1.0f), x1 = fmaf(x[i].y, y[n].x, 1.0f);
        float r_0, r_1;
        if (kTerms == Terms::apart) {
          r_0 = finite_fraction(x[i].x + y[n].y), r_1 = finite_fraction(x[i].y + y[n].x);
        } else if (kTerms == Terms::paired && n % 2 == 1) {
          const float both = reciprocal(x0 * x1);
          r_0 = both * x1, r_1 = both * x0;
        } else {
          r_0 = reciprocal(x0), r_1 = reciprocal(x1);
        }
        const float c0 = fmaf(-r_0, r_0, r_0), c1 = fmaf(-r_1, r_1, r_1);
        dq[i] = {fmaf(g[n], c0, dq[i].x), fmaf(g[n], c1, dq[i].y)};
        dk[n] = {fmaf(g[n], c0, dk[n].x), fmaf(g[n], c1, dk[n].y)};
        gr = {fmaf(g[n], r_0, gr.x), fmaf(g[n], r_1, gr.y)};
      }
    }
  }

  // dk of four keys, summed over the warps that have rows of their own.
  __device__ __forceinline__ void write_keys(int j0, const float2 (&dk)[4], int buffer) const {
    if constexpr (kTall == 1) {
#pragma unroll
      for (int n = 0; n < 4; ++n) write_key(j0 + n, dk[n]);
    } else {
      exchange_keys(j0, dk, buffer);
    }
  }
  __device__ __forceinline__ void exchange_keys(int j0, const float2 (&dk)[4], int buffer) const {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      float* const at = others + ((buffer * kWarps + warp) * 4 + n) * 64 + lane * 2;
      *reinterpret_cast<float2*>(at) = dk[n];
    }
    __syncthreads();
    for (int n = tall; n < 4; n += kTall) {
      float2 sum{};
#pragma unroll
      for (int m = 0; m < kTall; ++m) {
        const float2 v = *reinterpret_cast<const float2*>(
            others + ((buffer * kWarps + wide * kTall + m) * 4 + n) * 64 + lane * 2);
        sum = {sum.x + v.x, sum.y + v.y};
      }
      write_key(j0 + n, sum);
    }
  }

  template <bool kApart>
  __device__ __forceinline__ void run() {
    int buffer = 0;
#pragma unroll 1
    for (int step = 0; step < per; step += 4, buffer ^= 1) {
      const int j0 = wide * per + step;
      float2 y[4], dk[4], most{-infinity(), -infinity()};
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        y[n] = {next[n].y, next[n].x};  // swapped, see scores.cuh
        if (!kApart) y[n] = {exp_twice(y[n].x), exp_twice(y[n].y)};
        most = {fmaxf(most.x, fminf(next[n].x, kFarthest)),  // NaN counts as exp_twice takes it
                fmaxf(most.y, fminf(next[n].y, kFarthest))};
        dk[n] = {};
        if (step + 4 < per) next[n] = load_key(j0 + 4 + n);
      }
      if (kApart) {
        add<Terms::apart>(j0, y, dk);
      } else if (__all_sync(kAll, most.x < limit.x && most.y < limit.y)) {
        add<Terms::paired>(j0, y, dk);
      } else {
        add<Terms::single>(j0, y, dk);
      }
      write_keys(j0, dk, buffer);
    }
  }

  // dq, summed over the warps that have keys of their own; Σ g·r over all.
  __device__ __forceinline__ void write() const {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      *reinterpret_cast<float2*>(others + (warp * kRows + i) * 64 + lane * 2) = dq[i];
    }
    __syncthreads();
    for (int t = warp; t < kAllRows && out.dq.data; t += kWarps) {
      float2 sum{};
#pragma unroll
      for (int m = 0; m < kWide; ++m) {
        const int from = ((m * kTall + t / kRows) * kRows + t % kRows) * 64 + lane * 2;
        const float2 v = *reinterpret_cast<const float2*>(others + from);
        sum = {sum.x + v.x, sum.y + v.y};
      }
      if (r0 + t < Lq)
        store2(row_of(out.dq, b, h, r0 + t), out.dq.c, a, D, {sum.x * u.x, sum.y * u.y});
    }
    __syncthreads();
    *reinterpret_cast<float2*>(others + warp * 64 + lane * 2) = gr;
    __syncthreads();
    if (tid >= 64) return;
    float sum = 0.0f;
    for (int w = 0; w < kWarps; ++w) sum += others[w * 64 + tid];
    const size_t at = static_cast<size_t>(z) * gridDim.z + chunk;
    out.gr[at * s.lanes_width + blockIdx.x * 64 + tid] = sum;
  }
};

// Blocks of features, and blocks of dv.
template <int kRows, int kTall, int kWide, int kBlocks>
__global__ __launch_bounds__(
    32 * kTall * kWide,
    FOVEA_BLOCKS_AT_ONCE(kBlocks)) void short_gradients(const __grid_constant__ ShortCall s,
                                                        const __grid_constant__ ShortOutputs out) {
  extern __shared__ float4 shared4[];
  float* const shared = reinterpret_cast<float*>(shared4);
  const int features = parts(s.width, 64);
  if (static_cast<int>(blockIdx.x) >= features) {
    if (!out.dv.data) return;
    return short_value_gradients<kRows * kTall, 32 * kTall * kWide>(
        s, out, blockIdx.y, blockIdx.z, (blockIdx.x - features) * 128, shared);
  }
  ShortFeatures<kRows, kTall, kWide> block(s, out, shared);
  if (block.load() || kRows == 1) {
    block.template run<true>();
  } else {
    block.template run<false>();
  }
  block.write();
}

}  // namespace fovea::cuda
