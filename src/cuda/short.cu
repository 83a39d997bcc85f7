// The short path: which problems it takes, how their rows are made readable, its launches.
#include <algorithm>
#include <cstdlib>
#include <type_traits>

#include "cuda/attention.h"
#include "cuda/short_backward.cuh"
#include "cuda/short_forward.cuh"
#include "cuda/sums.cuh"

namespace fovea::cuda {
namespace {

// Rows of any strides to rows that follow one another, zeros at their ends.
__global__ __launch_bounds__(256) void pack_rows(const View<const float> from, int heads, int rows,
                                                 int n, int step, size_t all, float* to) {
  for (size_t t = blockIdx.x * size_t{256} + threadIdx.x; t < all; t += gridDim.x * size_t{256}) {
    const int d = static_cast<int>(t % step), r = static_cast<int>(t / step % rows);
    const int z = static_cast<int>(t / step / rows);
    to[t] = d < n ? row_of(from, z / heads, z % heads, r)[d * from.c] : 0.0f;
  }
}

// v with rows that can be read four numbers at a time; `store` owns a copy where that is needed.
View<const float> readable(const View<const float>& v, int64_t B, int64_t heads, int64_t rows,
                           int64_t n, Scratch<float>& store) {
  if (whole_rows(v) && n % 4 == 0 && std::abs(v.r) < 1 << 21) return v;
  const int64_t step = round_up(static_cast<int>(n), 4), all = B * heads * rows * step;
  store = Scratch<float>(all);
  pack_rows<<<blocks_for(all), 256, 0, stream()>>>(v, static_cast<int>(heads),
                                                   static_cast<int>(rows), static_cast<int>(n),
                                                   static_cast<int>(step), all, store.data());
  check_launch("attention, copying rows");
  return {store.data(), heads * rows * step, rows * step, step, 1};
}

ShortCall sizes_of(const AttentionProblem& p) {
  const int D = static_cast<int>(p.D);
  return {p, round_up(D, 4), round_up(static_cast<int>(p.Dv), 4), round_up(D, 128),
          round_up(static_cast<int>(p.Lk), 4)};
}

struct Readable {
  explicit Readable(const AttentionProblem& p) : call(sizes_of(p)) {
    call.p.q = readable(p.q, p.B, p.H, p.Lq, p.D, q_);
    call.p.k = readable(p.k, p.B, p.Hk, p.Lk, p.D, k_);
    call.p.v = readable(p.v, p.B, p.Hk, p.Lk, p.Dv, v_);
  }
  ShortCall call;

 private:
  Scratch<float> q_, k_, v_;
};

// Rows of a block: few queries are one block's, and a decoder's steps have one each.
constexpr int kOne = 1, kFew = 10, kMany = 7;
constexpr int kFewChunk = 10, kManyChunk = 52;  // rows of a block of gradients

struct Rows {
  int of_scores, of_gradients;
};
Rows rows_of_blocks(const AttentionProblem& p) {
  if (p.Lq == 1) return {kOne, kOne};
  return p.Lq <= kFew ? Rows{kFew, kFewChunk} : Rows{kMany, kManyChunk};
}

template <int kRows>
void forward(const ShortCall& s, const AttentionResult& out) {
  const size_t shared = short_forward_shared<kRows>(s);
  allow_shared<attend_short<kRows>>(shared);
  const dim3 grid(parts(static_cast<int>(s.p.Lq), kRows), static_cast<unsigned>(s.p.B * s.p.H));
  attend_short<kRows><<<grid, kShortThreads, shared, stream()>>>(s, out, dropout_of(s.p));
  check_launch("attention, few keys");
}

template <int kRows>
void score_gradients(const ShortCall& s, const ShortGradients& g) {
  const size_t shared = short_scores_shared<kRows>(s);
  allow_shared<short_score_gradients<kRows>>(shared);
  const dim3 grid(parts(static_cast<int>(s.p.Lq), kRows), static_cast<unsigned>(s.p.B * s.p.H));
  short_score_gradients<kRows><<<grid, kShortThreads, shared, stream()>>>(s, g, dropout_of(s.p));
  check_launch("attention, few keys, gradients of scores");
}

template <int kRows, int kTall, int kWide, int kBlocks>
void gradients(const ShortCall& s, const ShortOutputs& out, int chunks) {
  const size_t shared = short_gradients_shared<kRows, kTall, kWide>(s);
  allow_shared<short_gradients<kRows, kTall, kWide, kBlocks>>(shared);
  const dim3 grid(parts(s.width, 64) + parts(s.value_width, 128),
                  static_cast<unsigned>(s.p.B * s.p.H), chunks);
  short_gradients<kRows, kTall, kWide, kBlocks>
      <<<grid, 32 * kTall * kWide, shared, stream()>>>(s, out);
  check_launch("attention, few keys, gradients");
}

void sum_chunks(const AttentionProblem& p, const float* from, int chunks, int n, int step,
                const View<float>& to, const float* u) {
  const PartialSum x{.from = from,
                     .parts = chunks,
                     .heads = static_cast<int>(p.B * p.H),
                     .z = 0,
                     .rows = static_cast<int>(p.Lk),
                     .n = n,
                     .step = step,
                     .to = to,
                     .to_row = 0,
                     .group = static_cast<int>(p.group()),
                     .to_heads = static_cast<int>(p.Hk),
                     .u = u,
                     .scale = 4.0f * p.scale / p.temperature,
                     .add = false};
  launch_sum(x, limits().processors, stream());
  check_launch("attention, sums of partial results");
}

}  // namespace

bool short_suits(const AttentionProblem& p) {
  if (p.family != Family::additive || p.n_conditions > 0) return false;
  if (p.Lk > 512 || p.Lq >= 128 || p.D > 2048 || p.Dv > 2048 || p.B * p.H > 65535) return false;
  const ShortCall s = sizes_of(p);
  const size_t most = std::max({short_forward_shared<kFew>(s), short_scores_shared<kFew>(s),
                                short_gradients_shared<13, 4, 2>(s)});
  return most + 2048 <= static_cast<size_t>(limits().shared_memory);
}

void short_forward(const AttentionProblem& p, const AttentionResult& out) {
  const Readable in(p);
  if (p.Lq == 1) return forward<kOne>(in.call, out);
  return p.Lq <= kFew ? forward<kFew>(in.call, out) : forward<kMany>(in.call, out);
}

void short_backward(const AttentionProblem& p, const AttentionGradients& g) {
  const Readable in(p);
  const ShortCall& s = in.call;
  Scratch<float> context_store, d_context_store;
  const size_t heads = p.B * p.H, scores = heads * p.Lq * s.padded_keys;
  const Rows rows = rows_of_blocks(p);
  const int blocks = parts(static_cast<int>(p.Lq), rows.of_scores);
  const bool apart = g.dbias && p.softcap > 0.0f;
  const Scratch<float> w(scores), of_scores(scores), ds(apart ? scores : 0), totals(heads * blocks);
  const auto context = readable(g.context, p.B, p.H, p.Lq, p.Dv, context_store);
  const auto d_context = readable(g.d_context, p.B, p.H, p.Lq, p.Dv, d_context_store);
  const ShortGradients of{w.data(), of_scores.data(), ds.data(), totals.data(),
                          context,  d_context,        g.d_stat,  g.dsink};
  if (rows.of_scores == kOne) {
    score_gradients<kOne>(s, of);
  } else if (rows.of_scores == kFew) {
    score_gradients<kFew>(s, of);
  } else {
    score_gradients<kMany>(s, of);
  }
  const int Lq = static_cast<int>(p.Lq);
  if (g.dbias) {
    add_bias_gradients(p, g,
                       {apart ? ds.data() : of_scores.data(), 0, static_cast<int>(heads), 0, Lq, Lq,
                        s.padded_keys});
  }
  const int chunks = parts(Lq, rows.of_gradients);
  const bool summed = chunks > 1 || p.group() > 1;
  const size_t keys = chunks * heads * p.Lk;
  const Scratch<float> dk(summed && g.dk ? keys * s.width : 0);
  const Scratch<float> dv(summed && g.dv ? keys * s.value_width : 0);
  const Scratch<float> gr(heads * chunks * s.lanes_width);
  const ShortOutputs out{g.dq,          g.dk,      g.dv,     dk.data(),        dv.data(), s.width,
                         s.value_width, gr.data(), w.data(), of_scores.data(), d_context};
  if (rows.of_gradients == kOne) {
    gradients<1, 1, 4, 8>(s, out, chunks);
  } else if (rows.of_gradients == kFewChunk) {
    gradients<10, 1, 4, 4>(s, out, chunks);
  } else {
    gradients<13, 4, 2, 2>(s, out, chunks);
  }
  const int D = static_cast<int>(p.D), Dv = static_cast<int>(p.Dv);
  if (summed && g.dk) sum_chunks(p, dk.data(), chunks, D, s.width, g.dk, p.u);
  if (summed && g.dv) sum_chunks(p, dv.data(), chunks, Dv, s.value_width, g.dv, nullptr);
  if (!g.du) return;
  const WeightSum sum{.gr = gr.data(),
                      .n_gr = static_cast<int>(heads) * chunks,
                      .step = s.lanes_width,
                      .totals = totals.data(),
                      .n_totals = static_cast<int>(heads) * blocks,
                      .du = g.du,
                      .n = D,
                      .scale = p.scale / p.temperature,
                      .add = false};
  sum_weight_gradients<<<parts(D, kWarp), 256, 0, stream()>>>(sum);
  check_launch("attention, the gradient of u");
}

}  // namespace fovea::cuda
