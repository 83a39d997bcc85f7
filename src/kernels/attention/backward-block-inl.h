// One block of queries against one stretch of keys, on the way back: scores again from the row's
// statistic, the gradient of each row, and what it adds to dq, dk and dv.
#if defined(FOVEA_ATTENTION_BACKWARD_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_ATTENTION_BACKWARD_BLOCK_INL_H_
#undef FOVEA_ATTENTION_BACKWARD_BLOCK_INL_H_
#else
#define FOVEA_ATTENTION_BACKWARD_BLOCK_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/attention/backward-rows-inl.h"
#include "kernels/attention/backward-task-inl.h"
#include "kernels/attention/backward-words-inl.h"
#include "kernels/attention/blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

inline int64_t ChunksFor(const AttentionProblem& p) {
  const int64_t wanted = p.Lq >= 1024 ? 16 : 8;
  const int64_t per_head = (wanted + p.B * p.Hk - 1) / std::max<int64_t>(1, p.B * p.Hk);
  return std::clamp<int64_t>(per_head, 1, std::max<int64_t>(1, p.Lq / kMaxBlockRows));
}

HWY_INLINE float DotOf(Rows a, Rows b, int64_t width) {
  const F d;
  Vec sum = hn::Zero(d);
  float rest = 0.0f;
  int64_t k = 0;
  if (a.c == 1 && b.c == 1) {
    for (; k + kLanes <= width; k += kLanes) {
      sum = hn::MulAdd(hn::LoadU(d, a.data + k), hn::LoadU(d, b.data + k), sum);
    }
  }
  for (; k < width; ++k) rest += a.data[k * a.c] * b.data[k * b.c];
  return SumOf(sum) + rest;
}

// The sink's gradient of a row that sees no key: log-sum-exp is the sink.
inline float SinkAlone(const BackwardCall& c, int64_t h, int64_t row) {
  if (!c.g.d_stat || SinkOf(c.p, h) == -kInf) return 0.0f;
  return std::isnan(c.g.stat[row]) ? kNan : c.g.d_stat[row];
}

// context·d_context. A row that sees no key has a context of 0, whatever its gradient.
HWY_INLINE float ContextProduct(const BackwardCall& c, int64_t b, int64_t h, int64_t i) {
  const Rows context = RowsOf(c.g.context, b, h, i);
  const float product = DotOf(context, RowsOf(c.g.d_context, b, h, i), c.p.Dv);
  if (!c.p.sink || std::isfinite(product)) return product;
  bool zero = true;
  for (int64_t d = 0; d < c.p.Dv; ++d) zero &= context.data[d * context.c] == 0.0f;
  return zero ? 0.0f : product;
}

HWY_INLINE RowTerms TermsOf(const BackwardCall& c, int64_t b, int64_t h, int64_t i) {
  const AttentionProblem& p = c.p;
  const AttentionGradients& g = c.g;
  const int64_t at = (b * p.H + h) * p.Lq + i;
  RowTerms t;
  t.find_mean = c.find_mean;
  if (c.kept) t.kept = c.kept + at * kept_width(p.Lk);
  if (c.direct) t.factor = p.scale / p.temperature;
  if (g.stat) t.stat = g.stat[at];
  const bool soft = p.weigh == Weigh::softmax || p.weigh == Weigh::gumbel;
  if (soft && g.d_context && !c.find_mean) {
    t.beta -= ContextProduct(c, b, h, i);
  }
  if (g.d_stat) t.beta += g.d_stat[at];
  if (g.d_log_prob && g.chosen[at] >= 0) {
    t.beta -= g.d_log_prob[at];
    t.pick = g.d_log_prob[at];
    t.chosen = g.chosen[at];
  }
  if (g.d_entropy) {
    t.beta -= g.d_entropy[at] * g.entropy[at];
    t.gamma = -g.d_entropy[at];
  }
  return t;
}

// dw[n][keys] ← d_context·vᵀ (+ d_weights).
HWY_INLINE void WeightGradients(const BackwardTask& t) {
  const BackwardCall& c = t.unit.c;
  const BackwardScratch& mem = t.unit.mem;
  const AttentionProblem& p = c.p;
  const Block& x = t.block;
  const Rows& d_out = t.rows.d_out;
  const int64_t step = PanelRows(p.Dv), hk = x.at.h / p.group();
  for (int64_t g = 0; g < x.groups(); ++g) {
    const RowsPart rows = x.group(g);
    const int64_t i = rows.first, m = rows.m;
    EachPart(x, g, [&](PanelPart part) HWY_ATTR {
      float* to = mem.dw + i * mem.lds + (part.j - x.j0);
      if (c.few) {
        const int64_t n = std::min(part.n, p.Lk - part.j);
        DotRowsOf({d_out.data + i * d_out.row,
                   d_out.row,
                   p.Dv,
                   p.v.row(x.at.b, hk, part.j),
                   p.v.r,
                   n,
                   {to, mem.lds}},
                  m);
        for (int64_t k = 0; k < m; ++k) FillRow(to + k * mem.lds, n, part.n, 0.0f);
      } else if (c.words) {
        WeightGradientWords(t, rows, part, {to, mem.lds});
      } else if (c.g.d_context && p.weigh != Weigh::sample) {
        const int64_t inside = part.j % kPanelKeys;
        MatMul({.a = {d_out.data + i * d_out.row, d_out.row, 1},
                .b = t.unit.keys.v_panels + (part.j - inside) * step + inside,
                .ldb = kPanelKeys,
                .c = to,
                .ldc = mem.lds,
                .m = m,
                .n = part.n,
                .K = p.Dv,
                .accumulate = false});
      } else {
        for (int64_t k = 0; k < m; ++k) FillRow(to + k * mem.lds, 0, part.n, 0.0f);
      }
      if (!c.g.d_weights) return;
      for (int64_t k = 0; k < m; ++k) {
        const float* more =
            c.g.d_weights.row(x.at.b, x.at.h, x.at.i + i + k) + part.j * c.g.d_weights.c;
        for (int64_t j = 0; j < std::min(part.n, p.Lk - part.j); ++j) {
          to[k * mem.lds + j] += more[j * c.g.d_weights.c];
        }
      }
    });
  }
}

// The groups whose keys reach into the panel at j: rows first … first + m. What lies outside a
// group's own stretch is set to 0, so that one product covers them all.
HWY_INLINE RowsPart RowsSeeing(const BackwardScratch& mem, const Block& x, int64_t j) {
  const int64_t n = x.at.n, j1 = j + kPanelKeys, groups = x.groups(), group = x.r.group;
  const auto sees = [&](int64_t g) { return x.r.group_end[g] > j && x.r.group_begin[g] < j1; };
  int64_t a = 0, z = groups;
  while (a < z && !sees(a)) ++a;
  while (z > a && !sees(z - 1)) --z;
  for (int64_t g = a; g < z; ++g) {
    const bool seen = sees(g);
    const int64_t from = seen ? std::clamp(RoundDown(x.r.group_begin[g], kLanes), j, j1) : j1;
    const int64_t to = seen ? std::clamp(RoundUp(x.r.group_end[g], kLanes), from, j1) : j1;
    if (from == j && to == j1) continue;
    for (int64_t i = g * group; i < std::min(n, (g + 1) * group); ++i) {
      for (float* row : {mem.s + i * mem.lds - x.j0, mem.dw + i * mem.lds - x.j0}) {
        FillRow(row, j, from, 0.0f);
        FillRow(row, to, j1, 0.0f);
      }
    }
  }
  return {a * group, std::min(n, z * group) - a * group};
}

// dv += wᵀ·d_context, and for dot scores dk += dsᵀ·q: keys by keys.
HWY_INLINE void AddKeyGradients(const BackwardTask& t, bool accumulate) {
  const BackwardCall& c = t.unit.c;
  const BackwardScratch& mem = t.unit.mem;
  const UnitSums& sums = t.unit.sums;
  const AttentionProblem& p = c.p;
  const int64_t j0 = t.block.j0;
  const bool dot = p.family == Family::dot && c.scores;
  for (int64_t j = j0; j < t.block.j1; j += kPanelKeys) {
    const int64_t keys = std::min(kPanelKeys, p.Lk - j);
    const RowsPart rows = RowsSeeing(mem, t.block, j);
    if (rows.m <= 0) continue;
    const int64_t at = rows.first * mem.lds + (j - j0);
    if (c.words) {
      AddKeyGradientWords(t, rows, {j, keys}, accumulate);
      continue;
    }
    // to[keys][width] (+)= leftᵀ·from, over the rows that see them.
    const auto add = [&](const float* left, const Rows& from, DenseRows to, int64_t width) {
      MatMul({.a = {left + at, 1, mem.lds},
              .b = from.data + rows.first * from.row,
              .ldb = from.row,
              .c = to.data + j * to.ld,
              .ldc = to.ld,
              .m = keys,
              .n = width,
              .K = rows.m,
              .accumulate = accumulate},
             t.careful);
    };
    if (sums.dv.data && c.values) add(mem.s, t.rows.d_out, sums.dv, p.Dv);
    if (dot) add(mem.dw, t.rows.q, sums.dk, p.D);
  }
}

// Dot: dq += ds·k. Additive: da, dκ and Σ g·r together.
HWY_INLINE void AddQueryGradients(const BackwardTask& t, DenseRows dq) {
  const BackwardCall& c = t.unit.c;
  const BackwardScratch& mem = t.unit.mem;
  const AttentionProblem& p = c.p;
  const Rows& k_rows = t.unit.keys.rows;
  const Range range = t.unit.keys.packed.range;
  const Block& x = t.block;
  for (int64_t g = 0; g < x.groups(); ++g) {
    const int64_t a = std::clamp<int64_t>(x.r.group_begin[g], x.j0, x.j1);
    const int64_t z = std::clamp<int64_t>(x.r.group_end[g], x.j0, x.j1);
    if (a >= z) continue;
    const RowsPart rows = x.group(g);
    const int64_t i = rows.first;
    const float* ds = mem.dw + i * mem.lds + (a - x.j0);
    if (p.family == Family::dot) {
      if (!c.g.dq) continue;
      if (c.words) {
        AddQueryGradientWords(t, rows, {a, z - a}, dq);
        continue;
      }
      MatMul({.a = {ds, mem.lds, 1},
              .b = k_rows.data + a * k_rows.row,
              .ldb = k_rows.row,
              .c = dq.data + i * dq.ld,
              .ldc = dq.ld,
              .m = rows.m,
              .n = p.D,
              .K = z - a,
              .accumulate = !c.covers || x.j0 > 0},
             t.careful);
    } else {
      auto* add = AdditiveGradOf(range, c.w.inverses);
      add({.ea = mem.q_rows + i * c.ld,
           .ek = k_rows.data + a * kLanes,
           .ld = c.ld,
           .column = p.Lk * kLanes,
           .g = ds,
           .ldg = mem.lds,
           .da = dq.data + i * dq.ld,
           .dk = t.unit.sums.dk.data + a * kLanes,
           .gr_sum = t.unit.sums.gr},
          rows.m, z - a, !t.careful);
    }
  }
}

// ds of a row into the gradients that are matrices themselves: the bias, which is added to the
// capped score, and scores that were given.
HWY_INLINE void AddBiasGradients(const BackwardCall& c, const UnitSums& sums, const Stretch& x,
                                 const float* ds) {
  if (!sums.dbias) return;
  const View<float>& v = c.g.dbias;
  float* to = sums.dbias + x.b * v.b + x.h * v.h + x.i * v.r;
  const float factor = 1.0f / c.p.temperature;
  for (int64_t j = x.begin; j < x.end; ++j) to[j * v.c] += factor * ds[j - x.origin];
}

HWY_INLINE void WriteGivenGradients(const BackwardCall& c, const Stretch& x, const float* ds) {
  if (!c.g.dgiven) return;
  float* to = c.g.dgiven.row(x.b, x.h, x.i);
  const float factor = c.p.scale / c.p.temperature;
  for (int64_t j = x.begin; j < x.end; ++j) to[j * c.g.dgiven.c] = factor * ds[j - x.origin];
}

HWY_NOINLINE UnitKeys PrepareUnitKeys(const BackwardCall& c, const KeyScratch& mem, int64_t b,
                                      int64_t hk) {
  const AttentionProblem& p = c.p;
  const Rows from = KeysOf(p, b, hk);
  UnitKeys keys{{}, from, mem.v_panels};
  if (c.kept) {
    keys.packed.finite = c.words || KeysFinite(p, b, hk);
  } else {
    keys.packed = PackKeys(p, c.w, b, hk, mem.k_panels);
  }
  if (c.words) {
    PackUnitWords(c, mem, b, hk, keys);
    return keys;
  }
  if (c.scores && !c.few) PackPanels(ValuesOf(p, b, hk), p.Lk, p.Dv, {}, mem.v_panels);
  Range& range = keys.packed.range;
  if (KeyScratch::KeyRows(c) > 0) {
    if (p.family == Family::dot) {
      PackRows(from, p.Lk, p.D, 1.0f, {mem.k_rows, c.ld});
    } else {
      Magnitude kappa = NothingSeen();
      if (range != Range::large) PackColumns(from, p.Lk, p.D, &kappa, mem.k_rows);
      if (c.kept) range = RangeOf(LargestQuery(p, b, hk), kappa.Largest(), c.w);
      if (range == Range::large) PackColumns(from, p.Lk, p.D, nullptr, mem.k_rows);
    }
    keys.rows = {mem.k_rows, c.ld, 1};
  }
  // Keys of −inf are forbidden by their scores alone; 0·∞ must not reach dq. Nor must a NaN of an
  // additive score reach what it shares a division with.
  if (!p.masked() && (p.family == Family::dot || range == Range::large) && !p.finite) {
    keys.packed.finite = AllFinite(from, p.Lk, p.D);
  }
  return keys;
}

HWY_NOINLINE BlockRows PrepareBlockRows(const BackwardCall& c, const BackwardScratch& mem,
                                        Range range, const BlockAt& at) {
  const AttentionProblem& p = c.p;
  BlockRows block{};
  if (c.g.d_context) {
    block.d_out = RowsOf(c.g.d_context, at.b, at.h, at.i);
    if (!ReadableInPlace(block.d_out, p.Dv)) {
      PackRows(block.d_out, at.n, p.Dv, 1.0f, {mem.d_out, c.ldv});
      block.d_out = {mem.d_out, c.ldv, 1};
    }
  }
  if (c.words) {
    PackBlockWords(c, mem.words, block.d_out, at);
    return block;
  }
  if (p.family == Family::given) return block;
  block.q = QueriesOf(p, at.b, at.h, at.i);
  if (p.family == Family::additive || !ReadableInPlace(block.q, p.D)) {
    PackRows(block.q, at.n, p.D, 1.0f, {mem.q_rows, c.ld});
    if (p.family == Family::additive && range != Range::large) ExpTwice(mem.q_rows, at.n * c.ld);
    block.q = {mem.q_rows, c.ld, 1};
  }
  return block;
}

// The scores of a block and their gradients, row by row: mem.s becomes weights, mem.dw becomes ds.
HWY_INLINE void ScoreGradients(const BackwardTask& t) {
  const BackwardCall& c = t.unit.c;
  const BackwardScratch& mem = t.unit.mem;
  const UnitSums& sums = t.unit.sums;
  const AttentionProblem& p = c.p;
  const BlockAt& at = t.block.at;
  for (int64_t i = 0; i < at.n; ++i) {
    const Stretch x = StretchOf(t.block, i);
    const int64_t row = (at.b * p.H + at.h) * p.Lq + at.i + i;
    if (c.g.dsink) c.g.dsink[row] = SinkAlone(c, at.h, row);
    if (x.from >= x.to) continue;
    float* s = mem.s + i * mem.lds;
    float* dw = mem.dw + i * mem.lds;
    const bool capped = c.scores && p.softcap > 0.0f;
    if (capped) CapSlopes(p, s + (x.from - x.origin), x.size(), mem.slopes);
    if (!c.kept && NeedsMask(p, x)) MaskRow(p, x, s);
    const RowTerms terms = TermsOf(c, at.b, at.h, at.i + i);
    // Where one key is chosen its value alone has a gradient, which is added elsewhere.
    const bool chosen = Hard(p.weigh) && !std::isnan(terms.stat);
    const auto forget_weights = [&] { FillRow(s, x.from - x.origin, x.to - x.origin, 0.0f); };
    if (!c.scores) {  // only dv: the weights are enough
      if (chosen) {
        forget_weights();
      } else if (terms.kept) {
        std::copy(terms.kept + x.from, terms.kept + x.to, s + (x.from - x.origin));
        if (HasFactor(p)) FactorRow(p, x, s);
      } else {
        WeighAgain(p, x, terms.stat, {s, mem.spare});
      }
      continue;
    }
    const RowGrads grads = GradRow(p, x, terms, {s, dw, mem.spare});
    if (chosen && c.values) forget_weights();
    if (c.g.dcenter && !c.chosen_centers) c.g.dcenter[row] += grads.center;
    if (c.g.dsink) c.g.dsink[row] = grads.sink;
    AddBiasGradients(c, sums, x, dw);
    if (capped) TakeSlopes(mem.slopes, x.size(), dw + (x.from - x.origin));
    WriteGivenGradients(c, x, dw);
    if (c.g.du) *sums.total += RowSum(dw + (x.from - x.origin), x.size());
  }
}

// One block of queries against keys [j0, j0 + by.keys).
HWY_NOINLINE void BackwardBlock(const BackwardUnit& unit, const BlockAt& at, int64_t j0,
                                bool first_of_unit, DenseRows dq) {
  const BackwardCall& c = unit.c;
  const BackwardScratch& mem = unit.mem;
  const AttentionProblem& p = c.p;
  BlockRanges r;
  FindRanges(p, at, c.by.group, r);
  const int64_t j1 = std::min(j0 + c.by.keys, r.last);
  if (std::max(r.first, j0) >= j1 && !c.g.dsink) return;
  const Range range = unit.keys.packed.range;
  const QueryRows q{QueriesOf(p, at.b, at.h, at.i), at.n};
  // Where weights are of single scores, no statistic tells of a query of −inf, which permits none.
  bool finite = unit.keys.packed.finite && !c.undefined;
  if (!c.words &&
      (p.masked() || range == Range::large || p.softcap > 0.0f || !WeighsRows(p.weigh)) && finite) {
    finite = (!c.g.d_context || AllFinite(RowsOf(c.g.d_context, at.b, at.h, at.i), at.n, p.Dv)) &&
             (p.family == Family::given || AllFinite(q.from, at.n, p.D));
  }
  const BackwardTask t{unit, {at, r, j0, j1}, PrepareBlockRows(c, mem, range, at), !finite};
  if (!c.kept) {
    const ScoreSides sides{p, c.w, unit.keys.packed, PackQueries(p, c.w, range, q, mem.queries)};
    for (int64_t g = 0; g < t.block.groups(); ++g) {
      ScoreGroup(sides, t.block, g, {mem.s + g * r.group * mem.lds, mem.lds});
    }
  }
  if (c.scores) WeightGradients(t);
  ScoreGradients(t);
  if (c.scores && p.family != Family::given) AddQueryGradients(t, dq);
  AddKeyGradients(t, !c.covers || !first_of_unit);
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_ATTENTION_BACKWARD_BLOCK_INL_H_
