// Attention by rows of scores in memory, some at a time, for what the other paths do not do: every
// weighting, predicted windows, given scores, and gradients of weights and of functions of the
// probabilities. Scores and products are the long path's; what is done to a row is said by
// weigh_*.cuh. Memory is linear in Lq + Lk.
#include "cuda/chunks.cuh"
#include "cuda/general_rows.cuh"
#include "cuda/given.cuh"
#include "cuda/look_rows.cuh"
#include "cuda/plain_factors.cuh"
#include "cuda/weigh_alone.cuh"
#include "cuda/weigh_hard.cuh"
#include "cuda/weigh_softmax.cuh"
#include "cuda/weigh_sparse.cuh"

namespace fovea::cuda {
namespace {

using kernels::Weigh;

bool is_hard(Weigh w) { return w == Weigh::argmax || w == Weigh::sample || w == Weigh::gumbel; }

// Rows up to this long have a warp, longer ones a block.
constexpr int kLongRow = 1024;

int rows_of(const Chunk& c) { return c.heads * c.rows; }

// f(row type, team size) for a weighting.
template <class Row>
struct Kind {
  using Type = Row;
};
template <class Function>
void for_weighting(Weigh weigh, const Function& f) {
  switch (weigh) {
    case Weigh::sparsemax:
      return f(Kind<SparsemaxRow>());
    case Weigh::entmax15:
      return f(Kind<Entmax15Row>());
    case Weigh::sigmoid:
      return f(Kind<SigmoidRow>());
    case Weigh::none:
      return f(Kind<PlainRow>());
    default:
      return f(Kind<SoftmaxRow>());
  }
}

void weigh(const AttentionProblem& p, const RowCall& x) {
  for_weighting(p.weigh, [&](auto kind) {
    using Row = typename decltype(kind)::Type;
    const int rows = rows_of(x.c);
    if (x.c.padded_keys <= kLongRow) {
      weigh_rows<Row, kWarp><<<Team<kWarp>::blocks(rows), kTeamBlock, 0, stream()>>>(p, x);
    } else {
      weigh_rows<Row, kTeamBlock><<<rows, kTeamBlock, 0, stream()>>>(p, x);
    }
  });
  check_launch("attention, weights of rows");
}

void differentiate(const AttentionProblem& p, const AttentionGradients& g, const Prepared& in,
                   const GradientRowCall& x) {
  for_weighting(p.weigh, [&](auto kind) {
    using Row = typename decltype(kind)::Type;
    const int rows = rows_of(x.rows.c);
    if (x.rows.c.padded_keys <= kLongRow) {
      gradient_rows<Row, kWarp>
          <<<Team<kWarp>::blocks(rows), kTeamBlock, 0, stream()>>>(p, g, in, x);
    } else {
      gradient_rows<Row, kTeamBlock><<<rows, kTeamBlock, 0, stream()>>>(p, g, in, x);
    }
  });
  check_launch("attention, gradients of rows");
}

void choose(const AttentionProblem& p, const AttentionResult& out, const Chunk& c) {
  const ChooseCall x{.c = c,
                     .dropout = dropout_of(p),
                     .noisy = p.weigh != Weigh::argmax,
                     .sums = p.weigh != Weigh::argmax,
                     .noisy_sum = p.weigh == Weigh::gumbel};
  const int rows = rows_of(c);
  if (c.padded_keys <= kLongRow) {
    choose_rows<kWarp><<<Team<kWarp>::blocks(rows), kTeamBlock, 0, stream()>>>(p, out, x);
  } else {
    choose_rows<kTeamBlock><<<rows, kTeamBlock, 0, stream()>>>(p, out, x);
  }
  check_launch("attention, choices");
}

void weigh_chosen(const AttentionProblem& p, const AttentionGradients& g, const ChosenCall& x) {
  const int rows = rows_of(x.rows.c);
  if (x.rows.c.padded_keys <= kLongRow) {
    chosen_rows<kWarp><<<Team<kWarp>::blocks(rows), kTeamBlock, 0, stream()>>>(p, g, x);
  } else {
    chosen_rows<kTeamBlock><<<rows, kTeamBlock, 0, stream()>>>(p, g, x);
  }
  check_launch("attention, weights of choices");
}

void score_any(const AttentionProblem& p, const Prepared& in, const Chunk& c) {
  if (p.family != Family::given) return score(p, in, c);
  const size_t n = static_cast<size_t>(rows_of(c)) * c.padded_keys;
  score_given<<<blocks_for(n), 256, 0, stream()>>>(p, c);
  check_launch("attention, given scores");
}

template <class T>
View<T> of_rows(T* data, const AttentionProblem& p) {
  return {data, p.H * p.Lq, p.Lq, 1, 0};
}

void clear(const View<float>& to, int64_t B, int64_t H, int64_t R, int64_t C) {
  if (!to || B * H * R * C == 0) return;
  clear_view<<<blocks_for(B * H * R * C), 256, 0, stream()>>>(to, H, R, C, B * H * R * C);
  check_launch("attention, gradients of nothing");
}
void clear(float* to, int64_t n) {
  if (to && n > 0) check(cudaMemsetAsync(to, 0, n * sizeof(float), stream()), "clearing");
}

// What of a backward pass is to be computed.
struct Wanted {
  Wanted(const AttentionProblem& p, const AttentionGradients& g)
      : hard(is_hard(p.weigh)),
        scores((g.dq || g.dk || g.du || g.dgiven || g.dbias || g.dcenter || g.dsink) &&
               p.weigh != Weigh::argmax && p.weigh != Weigh::sample),
        values(g.dv && g.d_context && p.Dv > 0),
        of_choices(hard && g.dcenter && p.center && !p.renormalise) {}
  bool hard;
  bool scores;      // gradients that flow through the scores
  bool values;      // dv
  bool of_choices;  // the centre's, of one weight a row
  bool any() const { return scores || values || of_choices; }
};

void clear_unwanted(const AttentionProblem& p, const AttentionGradients& g, const Wanted& w) {
  if (!w.values) clear(g.dv, p.B, p.Hk, p.Lk, p.Dv);
  if (w.scores) return;
  clear(g.dq, p.B, p.H, p.Lq, p.D);
  clear(g.dk, p.B, p.Hk, p.Lk, p.D);
  clear(g.dgiven, p.B, p.H, p.Lq, p.Lk);
  clear(g.du, p.D);
  clear(g.dsink, p.rows());
  if (!w.of_choices) clear(g.dcenter, p.rows());
}

// Memory of a chunk's backward pass.
struct GradientMemory {
  GradientMemory(const AttentionProblem& p, const AttentionGradients& g, const ChunkSize& size,
                 const Wanted& wanted)
      : w_bad(static_cast<size_t>(size.heads) * size.padded),
        totals(static_cast<size_t>(size.heads) * size.padded) {
    const size_t scores = static_cast<size_t>(size.heads) * size.padded * size.padded_keys;
    if (wanted.scores) dw = Scratch<float>(scores);
    if (wanted.scores && g.dbias && p.softcap > 0.0f) ds = Scratch<float>(scores);
  }
  Scratch<uint8_t> w_bad;
  Scratch<float> totals, dw, ds;
};

// Which rows of queries and keys hold something that is not finite.
struct BadFactors {
  BadFactors(const AttentionProblem& p, bool wanted)
      : q(wanted ? p.rows() : 0), k(wanted ? p.B * p.Hk * p.Lk : 0) {
    if (!wanted) return;
    find(p.q, p.H, p.Lq, p.D, p.rows(), q.data());
    find(p.k, p.Hk, p.Lk, p.D, p.B * p.Hk * p.Lk, k.data());
  }
  static void find(const View<const float>& x, int64_t heads, int64_t L, int64_t D, int64_t rows,
                   uint8_t* bad) {
    find_bad_rows<<<Team<kWarp>::blocks(static_cast<int>(rows)), kTeamBlock, 0, stream()>>>(
        x, static_cast<int>(heads), static_cast<int>(L), static_cast<int>(D),
        static_cast<int>(rows), bad);
    check_launch("attention, what is not finite");
  }
  Scratch<uint8_t> q, k;
};

void add_left_out(const AttentionProblem& p, const AttentionGradients& g, const Chunk& of_scores,
                  const BadFactors& bad) {
  const FactorCall x{of_scores, bad.q.data(), bad.k.data()};
  add_left_out_keys<<<rows_of(of_scores), kTeamBlock, 0, stream()>>>(p, g, x);
  if (g.dk) {
    const int64_t keys = of_scores.heads / p.group() * p.Lk;
    add_left_out_queries<<<static_cast<unsigned>(keys), kTeamBlock, 0, stream()>>>(p, g, x);
  }
  check_launch("attention, gradients of what is not finite");
}

void backward_chunk(const AttentionProblem& p, const AttentionGradients& g, const Prepared& in,
                    const Chunk& c, const GradientMemory& memory, const Wanted& wanted,
                    const BadFactors& bad) {
  const RowCall rows{.c = c, .dropout = dropout_of(p), .keep = true, .w_bad = memory.w_bad.data()};
  score_any(p, in, c);
  if (wanted.scores) {
    const bool of_context = g.d_context && p.Dv > 0;
    if (of_context) weight_gradients(p, in, c, memory.dw.data());
    differentiate(p, g, in,
                  {.rows = rows,
                   .dw = memory.dw.data(),
                   .of_context = of_context,
                   .ds = memory.ds.data(),
                   .totals = memory.totals.data(),
                   .noisy = p.weigh == Weigh::gumbel,
                   .centers = p.center && !wanted.of_choices});
  } else if (!wanted.hard) {
    weigh(p, rows);
  }
  if (wanted.hard) {
    weigh_chosen(p, g,
                 {.rows = rows,
                  .chosen = of_rows(g.chosen, p),
                  .stat = of_rows(g.stat, p),
                  .scores = !wanted.scores,
                  .dcenter = wanted.of_choices ? g.dcenter : nullptr});
  }
  if (wanted.values) sum_value_gradients(p, g, in, c, memory.w_bad.data());
  if (!wanted.scores) return;
  Chunk of_scores = c;
  of_scores.e = memory.dw.data();
  if (g.dbias) {
    const float* ds = memory.ds.data() ? memory.ds.data() : memory.dw.data();
    add_bias_gradients(p, g, {ds, c.z, c.heads, c.row, c.rows, c.padded, c.padded_keys});
  }
  sum_score_gradients(p, g, in, of_scores, {memory.totals.data(), rows_of(c)});
  if (bad.q.data()) add_left_out(p, g, of_scores, bad);
}

}  // namespace

void general_forward(const AttentionProblem& p, const AttentionResult& out) {
  const Preparation prepared(p, {.unit = 1.0f});
  prepared.run(p, {});
  const ChunkSize size(p);
  const Scratch<uint8_t> w_bad(static_cast<size_t>(size.heads) * size.padded);
  for_chunks(p, size, [&](const Chunk& c) {
    score_any(p, prepared.to, c);
    if (is_hard(p.weigh)) return choose(p, out, c);
    const bool context = out.context && p.Dv > 0;
    weigh(p, {.c = c,
              .dropout = dropout_of(p),
              .stat = out.stat,
              .weights = out.weights,
              .keep = context,
              .w_bad = w_bad.data()});
    if (context) sum_values(p, prepared.to, c, w_bad.data(), out.context);
  });
}

void general_backward(const AttentionProblem& p, const AttentionGradients& g) {
  const Wanted wanted(p, g);
  clear_unwanted(p, g, wanted);
  if (!wanted.any()) return;
  AttentionGradients read = g;
  read.context = g.d_context;  // Σ w·dw is summed over the row instead
  const Preparation prepared(
      p, {.backward = wanted.scores, .d_context = static_cast<bool>(g.d_context), .unit = 1.0f});
  prepared.run(p, read);
  const ChunkSize size(p);
  const GradientMemory memory(p, g, size, wanted);
  const BadFactors bad(p, p.weigh == Weigh::none && p.family != Family::given && wanted.scores);
  for_chunks(p, size,
             [&](const Chunk& c) { backward_chunk(p, g, prepared.to, c, memory, wanted, bad); });
}

// ---- looks inside ------------------------------------------------------------------------------

namespace {

template <class T>
View<T> from(View<T> v, int64_t h, int64_t i) {
  if (v) v.data = v.row(0, h, i);
  return v;
}

// Heads h … h + heads, all of a call or one, and rows i … i + rows of it, without its values.
AttentionProblem part_of(AttentionProblem p, int64_t h, int64_t heads, int64_t i, int64_t rows) {
  p.k = from(p.k, h / p.group(), 0);
  p.H = heads, p.Lq = rows;
  if (heads == 1) p.Hk = 1;
  p.Dv = 0, p.v = {};
  p.q = from(p.q, h, i);
  p.given = from(p.given, h, i);
  p.begin = from(p.begin, h, i);
  p.end = from(p.end, h, i);
  p.allowed = from(p.allowed, h, i);
  p.bias = from(p.bias, h, i);
  p.center = from(p.center, h, i);
  if (p.sink) p.sink += h;
  p.first.h += h, p.first.i += i;
  return p;
}

struct DoneRows {
  View<const float> stat;
  View<const int32_t> chosen;
};

void write_weights(const AttentionProblem& p, const DoneRows& done, const View<float>& to) {
  const Preparation prepared(p, {.unit = 1.0f});
  prepared.run(p, {});
  for_chunks(p, ChunkSize(p), [&](const Chunk& c) {
    const RowCall rows{.c = c, .dropout = dropout_of(p), .weights = to};
    score_any(p, prepared.to, c);
    if (!is_hard(p.weigh)) return weigh(p, rows);
    weigh_chosen(p, {}, {.rows = rows, .chosen = done.chosen, .stat = done.stat, .scores = true});
  });
}

// f(prepared chunk) of a call that is softmax, without values.
template <class Function>
void for_scored(const AttentionProblem& p, const Function& f) {
  const Preparation prepared(p, {.unit = 1.0f});
  prepared.run(p, {});
  for_chunks(p, ChunkSize(p), [&](const Chunk& c) {
    score_any(p, prepared.to, c);
    f(c);
  });
}

}  // namespace

void attention_weights(const AttentionProblem& p, const AttentionResult& done,
                       const kernels::WeightsSelection& pick, const View<float>& weights) {
  const DoneRows rows{of_rows<const float>(done.stat, p), of_rows<const int32_t>(done.chosen, p)};
  const auto row_at = [&](int64_t r) { return pick.rows ? pick.rows[r] : r; };
  const int64_t heads = pick.heads ? 1 : p.H, calls = pick.heads ? pick.n_heads : 1;
  for (int64_t head = 0; head < calls; ++head) {
    const int64_t h = pick.heads ? pick.heads[head] : 0;
    for (int64_t r = 0, m = 1; r < pick.n_rows; r += m) {  // rows that follow one another
      m = 1;
      while (r + m < pick.n_rows && row_at(r + m) == row_at(r) + m) ++m;
      const int64_t i = row_at(r);
      write_weights(part_of(p, h, heads, i, m), {from(rows.stat, h, i), from(rows.chosen, h, i)},
                    from(weights, head, r));
    }
  }
}

void attention_entropy(const AttentionProblem& p, const float*, float* entropy) {
  for_scored(p, [&](const Chunk& c) {
    entropy_rows<<<rows_of(c), kTeamBlock, 0, stream()>>>(p, c, entropy);
    check_launch("attention, entropy");
  });
}

void attention_log_prob(const AttentionProblem& p, const float* stat, const int32_t* chosen,
                        float* log_prob) {
  for_scored(p, [&](const Chunk& c) {
    log_prob_rows<<<rows_of(c), kTeamBlock, 0, stream()>>>(p, c, stat, chosen, log_prob);
    check_launch("attention, log-probabilities");
  });
}

void top_of_rows(const kernels::TopRows& x, const float* weights, float* top, int64_t* keys) {
  if (x.rows == 0 || x.k == 0) return;
  find_top<<<static_cast<unsigned>(x.rows), kTeamBlock, 0, stream()>>>(x, weights, top, keys);
  check_launch("attention, the largest weights");
}

}  // namespace fovea::cuda
