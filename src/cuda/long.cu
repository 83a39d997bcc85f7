// The long path: the order of its kernels and the memory between them. Scores of as many rows as
// fit a bound are in memory at a time, so that it stays linear in Lq + Lk; smaller bounds cost time
// (H200, L 4096 A 64, forward and backward: 790 µs with 16 Mi scores, 837 with 8, 945 with 4).
#include <algorithm>

#include "cuda/attention.h"
#include "cuda/chunks.cuh"
#include "cuda/gradients.cuh"
#include "cuda/sums.cuh"
#include "cuda/values.cuh"

namespace fovea::cuda {

void Preparation::run(const AttentionProblem& p, const AttentionGradients& g) const {
  const int64_t queries = p.B * p.H * to.query_parts, keys = p.B * p.Hk * to.key_parts;
  const int64_t blocks = queries + 2 * keys + (to.d_out != nullptr ? queries : 0);
  const bool additive = p.family == Family::additive;
  const auto kernel = additive ? prepare<Family::additive> : prepare<Family::dot>;
  kernel<<<static_cast<unsigned>(blocks), kPrepareThreads, 0, stream()>>>(p, g, to);
  check_launch("attention, preparing queries, keys and values");
}

void score(const AttentionProblem& p, const Prepared& in, const Chunk& c) {
  const dim3 grid(c.padded_keys / kTileKeys, parts(c.rows, kTileRows), c.heads);
  const size_t shared = score_shared(in.width);
  if (p.family == Family::dot) {
    allow_shared<score_dot_tiles>(shared);
    score_dot_tiles<<<grid, kScoreThreads, shared, stream()>>>(p, in, c);
    return check_launch("attention, dot products");
  }
  allow_shared<score_tiles>(shared);
  allow_shared<score_wide_tiles>(shared);
  score_tiles<<<grid, kScoreThreads, shared, stream()>>>(p, in, c);
  score_wide_tiles<<<limits().processors, kScoreThreads, shared, stream()>>>(p, in, c);
  check_launch("attention, additive scores");
}

namespace {

void finish(const AttentionProblem& p, const Chunk& c, float* stat, const float* beta,
            float* dsink) {
  finish_rows<<<parts(c.heads * c.rows, 8), 256, 0, stream()>>>(p, c, stat, beta, dsink);
  check_launch("attention, softmax");
}

template <Product kOp, int WM, int WN>
void launch_product(const AttentionProblem& p, const AttentionGradients& g, const Prepared& in,
                    const ProductCall& x, int m, int n) {
  using S = ProductShape<kOp, 32 * WM, 32 * WN>;
  allow_shared<multiply<kOp, WM, WN>>(S::kShared);
  const dim3 grid(parts(n, 32 * WN), parts(m, 32 * WM), x.c.heads * x.splits);
  multiply<kOp, WM, WN><<<grid, 32 * WM * WN, S::kShared, stream()>>>(p, g, in, x);
  check_launch("attention, products with values");
}
template <Product kOp>
void product(const AttentionProblem& p, const AttentionGradients& g, const Prepared& in,
             const ProductCall& x, int m, int n) {
  if (n <= 64) {
    launch_product<kOp, 4, 2>(p, g, in, x, m, n);
  } else {
    launch_product<kOp, 2, 4>(p, g, in, x, m, n);
  }
}

// Into how many parts a sum is cut so that the device is full.
int splits_for(int heads, int m, int n, int depth) {
  const int tiles = (n <= 64 ? parts(m, 128) : parts(m, 64) * parts(n, 128)) * heads;
  int splits = 1;
  while (2 * tiles * splits < 3 * limits().processors && depth / (2 * splits) >= 128 &&
         splits < 8) {
    splits *= 2;
  }
  return splits;
}

void sum(const PartialSum& x) {
  launch_sum(x, limits().processors, stream());
  check_launch("attention, sums of partial results");
}

// context, dv, dq or dk: a product over the depth, in parts where that fills the device or where
// heads share their keys.
template <Product kOp>
void product_into(const AttentionProblem& p, const AttentionGradients& g, const Prepared& in,
                  const Chunk& c, const View<float>& to, const uint8_t* w_bad = nullptr) {
  constexpr bool kKeys = of_keys(kOp);
  const int n = static_cast<int>(sums_values(kOp) ? p.Dv : p.D), Lk = static_cast<int>(p.Lk);
  const int m = kKeys ? Lk : c.rows, depth = kKeys ? c.rows : Lk;
  const int group = kKeys ? static_cast<int>(p.group()) : 1;
  const float factor = sums_values(kOp) ? 1.0f : p.scale / p.temperature;
  ProductCall x{.c = c, .dropout = dropout_of(p), .w_bad = w_bad};
  x.splits = splits_for(c.heads, m, n, depth);
  x.depth = round_up(parts(depth, x.splits), 32);
  const bool add = kKeys && c.row > 0;
  if (x.splits == 1 && group == 1) {
    x.to = {.view = to, .columns = n, .factor = factor, .add = add};
    return product<kOp>(p, g, in, x, m, n);
  }
  const size_t head = static_cast<size_t>(m) * n;
  const Scratch<float> partial(x.splits * c.heads * head);
  x.to = {.partial = partial.data(),
          .split = c.heads * head,
          .head = head,
          .columns = n,
          .factor = factor};
  product<kOp>(p, g, in, x, m, n);
  sum({.from = partial.data(),
       .parts = x.splits,
       .heads = c.heads,
       .z = c.z,
       .rows = m,
       .n = n,
       .step = n,
       .to = to,
       .to_row = kKeys ? 0 : c.row,
       .group = group,
       .to_heads = static_cast<int>(kKeys ? p.Hk : p.H),
       .u = nullptr,
       .scale = 1.0f,
       .add = add});
}

template <int kWarps>
void launch_gradients(const AttentionProblem& p, const Prepared& in, const GradientCall& x) {
  constexpr size_t kShared = gradient_shared<kWarps>();
  allow_shared<add_gradients<kWarps>>(kShared);
  const dim3 grid(in.width / 64, parts(x.c.rows, 16 * kWarps) * x.ranges, x.c.heads);
  add_gradients<kWarps><<<grid, 32 * kWarps, kShared, stream()>>>(p, in, x);
  check_launch("attention, gradients of additive scores");
}

// Partial sums of the gradients of additive scores, and how the work is cut.
struct GradientParts {
  GradientParts(const AttentionProblem& p, const AttentionGradients& g, const Prepared& in,
                const Chunk& c)
      : large(limits().shared_memory >= static_cast<int>(gradient_shared<16>())),
        blocks(parts(c.rows, large ? 256 : 64)),
        call{.c = c} {
    // One block a processor; where rows see ranges of their own, more: some have little to do.
    const int Lk = static_cast<int>(p.Lk), wanted = (p.begin.data ? 3 : 1) * limits().processors;
    const int base = in.width / 64 * blocks * c.heads;
    const int ranges = std::clamp(wanted / base, 1, parts(Lk, 64));
    call.keys = round_up(parts(Lk, ranges), 32);
    call.ranges = parts(Lk, call.keys);
    const bool whole = call.ranges == 1 && g.dq;
    const size_t head = static_cast<size_t>(in.width) * c.heads;
    dq = Scratch<float>(whole ? 0 : call.ranges * c.rows * head);
    dk = Scratch<float>(blocks * Lk * head);
    gr = Scratch<float>(blocks * call.ranges * head);
    if (whole) call.whole_dq = g.dq;
    call.dq = dq.data(), call.dk = dk.data(), call.gr = gr.data();
  }
  bool large;
  int blocks;
  GradientCall call;
  Scratch<float> dq, dk, gr;
};

void sum_weights(const AttentionProblem& p, const AttentionGradients& g, const Prepared& in,
                 const GradientParts& x, const Totals& totals) {
  const Chunk& c = x.call.c;
  const int D = static_cast<int>(p.D);
  const WeightSum w{.gr = x.gr.data(),
                    .n_gr = c.heads * x.blocks * x.call.ranges,
                    .step = in.width,
                    .totals = totals.data,
                    .n_totals = totals.n,
                    .du = g.du,
                    .n = D,
                    .scale = p.scale / p.temperature,
                    .add = c.z > 0 || c.row > 0};
  sum_weight_gradients<<<parts(D, kWarp), 256, 0, stream()>>>(w);
  check_launch("attention, the gradient of u");
}

// The score gradients of a chunk become dq, dk and du.
void additive_gradients(const AttentionProblem& p, const AttentionGradients& g, const Prepared& in,
                        const Chunk& c, const Totals& totals) {
  const GradientParts x(p, g, in, c);
  if (x.large) {
    launch_gradients<16>(p, in, x.call);
  } else {
    launch_gradients<4>(p, in, x.call);
  }
  PartialSum s{.heads = c.heads,
               .z = c.z,
               .n = static_cast<int>(p.D),
               .step = in.width,
               .u = p.u,
               .scale = 4.0f * (p.scale / p.temperature)};
  if (g.dq && !x.call.whole_dq) {
    s.from = x.dq.data(), s.parts = x.call.ranges, s.rows = c.rows, s.to = g.dq, s.to_row = c.row;
    s.group = 1, s.to_heads = static_cast<int>(p.H), s.add = false;
    sum(s);
  }
  if (g.dk) {
    s.from = x.dk.data(), s.parts = x.blocks, s.rows = static_cast<int>(p.Lk), s.to = g.dk;
    s.to_row = 0, s.group = static_cast<int>(p.group()), s.to_heads = static_cast<int>(p.Hk);
    s.add = c.row > 0;
    sum(s);
  }
  if (g.du) sum_weights(p, g, in, x, totals);
}

// What the scores of a chunk leave in its place, and of that the gradients.
void chunk_gradients(const AttentionProblem& p, const AttentionGradients& g, const Prepared& in,
                     const Chunk& c) {
  const Scratch<float> totals(c.heads * parts(c.rows, 64) * parts(c.padded_keys, 64));
  const bool apart = g.dbias && p.softcap > 0.0f;
  const Scratch<float> ds(apart ? c.at(c.heads, 0) : 0);
  const ProductCall x{.c = c,
                      .splits = 1,
                      .depth = in.value_width,
                      .dropout = dropout_of(p),
                      .ds = ds.data(),
                      .totals = totals.data(),
                      .beta = in.beta};
  launch_product<Product::d_scores, 2, 4>(p, g, in, x, c.rows, c.padded_keys);
  if (g.dbias) {
    const float* from = apart ? ds.data() : c.e;
    add_bias_gradients(p, g, {from, c.z, c.heads, c.row, c.rows, c.padded, c.padded_keys});
  }
  const int n = c.heads * parts(c.rows, 64) * parts(c.padded_keys, 128);
  sum_score_gradients(p, g, in, c, {totals.data(), n});
}

}  // namespace

void sum_values(const AttentionProblem& p, const Prepared& in, const Chunk& c, const uint8_t* w_bad,
                const View<float>& context) {
  product_into<Product::weighted>(p, {}, in, c, context, w_bad);
}

void sum_value_gradients(const AttentionProblem& p, const AttentionGradients& g, const Prepared& in,
                         const Chunk& c, const uint8_t* w_bad) {
  product_into<Product::d_weighted>(p, g, in, c, g.dv, w_bad);
}

void weight_gradients(const AttentionProblem& p, const Prepared& in, const Chunk& c, float* dw) {
  const ProductCall x{.c = c, .splits = 1, .depth = in.value_width, .ds = dw};
  launch_product<Product::d_weights, 2, 4>(p, {}, in, x, c.rows, c.padded_keys);
}

void sum_score_gradients(const AttentionProblem& p, const AttentionGradients& g, const Prepared& in,
                         const Chunk& c, const Totals& totals) {
  if (p.family == Family::dot) {
    if (g.dq) product_into<Product::d_queries>(p, g, in, c, g.dq);
    if (g.dk) product_into<Product::d_keys>(p, g, in, c, g.dk);
  } else if (p.family == Family::additive && (g.dq || g.dk || g.du)) {
    additive_gradients(p, g, in, c, totals);
  }
}

void long_forward(const AttentionProblem& p, const AttentionResult& out) {
  const Preparation prepared(p, {});
  prepared.run(p, {});
  for_chunks(p, ChunkSize(p), [&](const Chunk& c) {
    score(p, prepared.to, c);
    finish(p, c, out.stat, nullptr, nullptr);
    if (out.context) product_into<Product::context>(p, {}, prepared.to, c, out.context);
  });
}

void long_backward(const AttentionProblem& p, const AttentionGradients& g) {
  const Preparation prepared(p, {.backward = true, .d_context = true});
  const Prepared& in = prepared.to;
  prepared.run(p, g);
  const bool scores = g.dq || g.dk || g.du || g.dbias;
  for_chunks(p, ChunkSize(p), [&](const Chunk& c) {
    score(p, in, c);
    finish(p, c, nullptr, in.beta, g.dsink);
    if (g.dv) product_into<Product::d_values>(p, g, in, c, g.dv);
    if (scores) chunk_gradients(p, g, in, c);
  });
}

}  // namespace fovea::cuda
