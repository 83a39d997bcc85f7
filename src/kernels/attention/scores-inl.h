// The score families: raw scores of a few query rows against a panel of keys, and the gradient of
// a tile of scores. Everything else in the kernels is common to all families.
#if defined(FOVEA_ATTENTION_SCORES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_ATTENTION_SCORES_INL_H_
#undef FOVEA_ATTENTION_SCORES_INL_H_
#else
#define FOVEA_ATTENTION_SCORES_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "kernels/attention/pack-inl.h"
#include "kernels/attention/problem.h"
#include "kernels/attention/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

// How an additive score computes x = 1 + e^{2(a+κ)}, by the range of its inputs.
enum class Range : uint8_t {
  small,  // |a| + |κ| ≤ 20: x = 1 + e^{2a}·e^{2κ} < 2⁶⁰, and two multiply without overflow
  medium,  // |a|, |κ| ≤ 43: the same of min(x, 2⁶⁰)
  large    // x = 1 + e^{2(a+κ)} directly
};

constexpr float kLargestX = 0x1p60f;

inline Range RangeOf(float a, float kappa) {
  if (a + kappa <= 20.0f) return Range::small;
  return std::max(a, kappa) <= 43.0f ? Range::medium : Range::large;
}

// The key side of one (b, hk), packed once and shared by its query blocks.
struct PackedKeys {
  const float* panels = nullptr;  // [panel][D][64]: k·scale/T, or κ, or e^{2κ}
  Range range = Range::small;
  bool finite = true;  // k and v; looked at only where some weights may be 0
};

// The query side of one block.
struct PackedQueries {
  const float* rows = nullptr;  // dot and additive large: [n][D] as it is;
  int64_t ld = 0;  // otherwise E = e^{2a}, then u₂E₁, u₁E₂, u₄E₃, u₃E₄, …
};

// u·scale/T, and what the pairs need of it.
struct AdditiveWeights {
  const float* u = nullptr;        // [D] and zeros to whole vectors
  const float* swapped = nullptr;  // u₂, u₁, u₄, u₃, …
  const float* pairs = nullptr;    // u₁ + u₂, u₃ + u₄, …
  float total = 0.0f;              // Σu
};

// ---- additive ----------------------------------------------------------------------------------
// Σ u·tanh(a+κ) = Σu − 2 Σ u/x,  x = 1 + e^{2a}·e^{2κ}.  A division costs six products, so two
// terms share it: u₁/x₁ + u₂/x₂ = (u₁ + u₂ + u₂E₁K₁ + u₁E₂K₂) / (x₁x₂).

struct Fraction {
  Vec above, below;
};

// E₁, E₂ at e; u₂E₁, u₁E₂ at c.
HWY_INLINE Fraction PairFraction(const float* e, const float* c, Vec k1, Vec k2, Vec both) {
  const F d;
  const Vec one = hn::Set(d, 1.0f);
  const Vec x1 = hn::MulAdd(hn::Set(d, e[0]), k1, one);
  const Vec x2 = hn::MulAdd(hn::Set(d, e[1]), k2, one);
  const Vec above = hn::MulAdd(hn::Set(d, c[1]), k2, hn::MulAdd(hn::Set(d, c[0]), k1, both));
  return {above, hn::Mul(x1, x2)};
}

HWY_INLINE Fraction GuardedFraction(const float* e, const float* u, Vec k1, Vec k2) {
  const F d;
  const Vec one = hn::Set(d, 1.0f), most = hn::Set(d, kLargestX);
  const Vec x1 = hn::Min(hn::MulAdd(hn::Set(d, e[0]), k1, one), most);
  const Vec x2 = hn::Min(hn::MulAdd(hn::Set(d, e[1]), k2, one), most);
  return {hn::MulAdd(hn::Set(d, u[0]), x2, hn::Mul(hn::Set(d, u[1]), x1)), hn::Mul(x1, x2)};
}

// Query rows against the keys of a panel: s[i][j], n of them, whole vectors.
struct AdditivePanel {
  const float* q;
  int64_t ldq;
  const AdditiveWeights& w;
  const float* panel;
  int64_t n, width;
  DenseRows s;
};

// Rows first … first + MR.
template <int MR, bool kGuard>
HWY_INLINE void AdditiveTile(const AdditivePanel& x, int64_t first) {
  const F d;
  const AdditiveWeights& w = x.w;
  const int64_t ldq = x.ldq, lds = x.s.ld, width = x.width, n = x.n;
  const float* HWY_RESTRICT q = x.q + first * ldq;
  const float* HWY_RESTRICT panel = x.panel;
  float* HWY_RESTRICT s = x.s.data + first * lds;
  for (int64_t j = 0; j < n; j += kLanes) {
    Vec sum[MR];
    HWY_UNROLL(4)
    for (int i = 0; i < MR; ++i) sum[i] = hn::Zero(d);
    for (int64_t a = 0; a < width; a += 2) {
      const Vec k1 = hn::LoadU(d, panel + a * kPanel + j);
      const Vec k2 = hn::LoadU(d, panel + (a + 1) * kPanel + j);
      const Vec both = hn::Set(d, w.pairs[a / 2]);
      HWY_UNROLL(4)
      for (int i = 0; i < MR; ++i) {
        const float* e = q + i * ldq + a;
        const Fraction f =
            kGuard ? GuardedFraction(e, w.u + a, k1, k2) : PairFraction(e, e + width, k1, k2, both);
        sum[i] = hn::Add(sum[i], hn::Div(f.above, f.below));
      }
    }
    HWY_UNROLL(4)
    for (int i = 0; i < MR; ++i) {
      hn::StoreU(hn::NegMulAdd(hn::Set(d, 2.0f), sum[i], hn::Set(d, w.total)), d, s + i * lds + j);
    }
  }
}

// The smaller of the two, or x where that is NaN.
HWY_INLINE Vec AtMost(Vec x, float most) {
  const Vec limit = hn::Set(F(), most);
  return hn::IfThenElse(hn::Gt(x, limit), limit, x);
}

HWY_INLINE Vec DirectX(Vec a, Vec kappa) {
  const Vec z = hn::Add(a, kappa);
  return hn::Add(hn::Set(F(), 1.0f), Exp(AtMost(hn::Add(z, z), 80.0f)));
}

HWY_NOINLINE void AdditiveDirect(const AdditivePanel& x, int64_t m) {
  const F d;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < x.n; j += kLanes) {
      Vec sum = hn::Zero(d);
      for (int64_t k = 0; k < x.width; ++k) {
        const Vec at =
            DirectX(hn::Set(d, x.q[i * x.ldq + k]), hn::LoadU(d, x.panel + k * kPanel + j));
        sum = hn::Add(sum, hn::Div(hn::Set(d, x.w.u[k]), at));
      }
      hn::StoreU(hn::NegMulAdd(hn::Set(d, 2.0f), sum, hn::Set(d, x.w.total)), d,
                 x.s.data + i * x.s.ld + j);
    }
  }
}

template <bool kGuard>
HWY_NOINLINE void AdditiveRows(const AdditivePanel& x, int64_t m) {
  int64_t i = 0;
  for (; i + 4 <= m; i += 4) AdditiveTile<4, kGuard>(x, i);
  for (; i < m; ++i) AdditiveTile<1, kGuard>(x, i);
}

HWY_NOINLINE void PackAdditiveQueries(Rows from, int64_t n, int64_t width, const AdditiveWeights& w,
                                      DenseRows out) {
  const F d;
  const int64_t padded = PanelRows(width);
  for (int64_t i = 0; i < n; ++i) {
    float* to = out.data + i * out.ld;
    PackRows({from.data + i * from.row, from.row, from.c}, 1, width, 1.0f,
             {to, RoundUp(width, kLanes)});
    ExpTwice(to, RoundUp(width, kLanes));
    FillRow(to, width, padded, 0.0f);
    for (int64_t k = 0; k < padded; k += kLanes) {
      hn::StoreU(hn::Mul(hn::LoadU(d, to + k), hn::LoadU(d, w.swapped + k)), d, to + padded + k);
    }
  }
}

// With g = ds and r = 1/x: 1 − tanh² = 4(r − r²), so s = g·r − g·r², da += s, dκ += s (both times
// 4u at the end), and du = Σg − 2 Σ g·r. Lanes over features, MR query rows in registers; two
// rows share a division: 1/x₁ = x₂/(x₁x₂).

template <Range kRange>
HWY_INLINE Vec AdditiveX(Vec e, Vec k) {
  const F d;
  if constexpr (kRange == Range::large) return AtMost(DirectX(e, k), kLargestX);
  const Vec x = hn::MulAdd(e, k, hn::Set(d, 1.0f));
  return kRange == Range::small ? x : hn::Min(x, hn::Set(d, kLargestX));
}

struct GradSums {
  Vec dk, gr;
};

HWY_INLINE void AddTerm(float g, Vec r, Vec& da, GradSums& sums) {
  const Vec gr = hn::Mul(hn::Set(F(), g), r);
  const Vec s = hn::NegMulAdd(gr, r, gr);
  da = hn::Add(da, s);
  sums.dk = hn::Add(sums.dk, s);
  sums.gr = hn::Add(sums.gr, gr);
}

// ds of query rows and keys, their exponentials, and what they are added to; ld floats a row.
struct AdditiveGrad {
  const float *ea, *ek;
  int64_t ld;
  const float* g;
  int64_t ldg;
  float *da, *dk, *gr_sum;
};
HWY_INLINE AdditiveGrad From(const AdditiveGrad& x, int64_t i, int64_t j) {
  return {x.ea + i * x.ld, x.ek + j * x.ld, x.ld,    x.g + i * x.ldg + j, x.ldg,
          x.da + i * x.ld, x.dk + j * x.ld, x.gr_sum};
}

template <int MR, Range kRange>
HWY_INLINE void AdditiveGradTile(const AdditiveGrad& x, int64_t n) {
  const int64_t ld = x.ld, ldg = x.ldg;
  const float* HWY_RESTRICT ea = x.ea;
  const float* HWY_RESTRICT ek = x.ek;
  const float* HWY_RESTRICT g = x.g;
  float* HWY_RESTRICT da = x.da;
  float* HWY_RESTRICT dk = x.dk;
  float* HWY_RESTRICT gr_sum = x.gr_sum;
  static_assert(MR == 1 || MR == 4);
  const F d;
  const Vec one = hn::Set(d, 1.0f);
  for (int64_t c = 0; c < ld; c += kLanes) {
    Vec e[MR], sum[MR];
    HWY_UNROLL(8)
    for (int i = 0; i < MR; ++i) {
      e[i] = hn::LoadU(d, ea + i * ld + c);
      sum[i] = hn::LoadU(d, da + i * ld + c);
    }
    Vec total = hn::LoadU(d, gr_sum + c);
    for (int64_t j = 0; j < n; ++j) {
      const Vec k = hn::LoadU(d, ek + j * ld + c);
      GradSums sums{hn::LoadU(d, dk + j * ld + c), total};
      if constexpr (MR == 1) {
        AddTerm(g[j], hn::Div(one, AdditiveX<kRange>(e[0], k)), sum[0], sums);
      } else {
        const Vec x1 = AdditiveX<kRange>(e[0], k), x2 = AdditiveX<kRange>(e[1], k);
        const Vec x3 = AdditiveX<kRange>(e[2], k), x4 = AdditiveX<kRange>(e[3], k);
        const Vec r12 = hn::Div(one, hn::Mul(x1, x2)), r34 = hn::Div(one, hn::Mul(x3, x4));
        AddTerm(g[j], hn::Mul(r12, x2), sum[0], sums);
        AddTerm(g[ldg + j], hn::Mul(r12, x1), sum[1], sums);
        AddTerm(g[2 * ldg + j], hn::Mul(r34, x4), sum[2], sums);
        AddTerm(g[3 * ldg + j], hn::Mul(r34, x3), sum[3], sums);
      }
      total = sums.gr;
      hn::StoreU(sums.dk, d, dk + j * ld + c);
    }
    HWY_UNROLL(8)
    for (int i = 0; i < MR; ++i) hn::StoreU(sum[i], d, da + i * ld + c);
    hn::StoreU(total, d, gr_sum + c);
  }
}

// m rows and n keys. What is not finite is kept out of sums where its g is 0.
template <Range kRange>
HWY_NOINLINE void AdditiveGradRows(const AdditiveGrad& x, int64_t m, int64_t n, bool finite) {
  int64_t i = 0;
  if (finite) {
    for (; i + 4 <= m; i += 4) AdditiveGradTile<4, kRange>(From(x, i, 0), n);
    for (; i < m; ++i) AdditiveGradTile<1, kRange>(From(x, i, 0), n);
    return;
  }
  for (; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      if (x.g[i * x.ldg + j] != 0.0f) AdditiveGradTile<1, kRange>(From(x, i, j), 1);
    }
  }
}

// ---- one panel of any family -------------------------------------------------------------------

// Both sides of the scores of one block.
struct ScoreSides {
  const AttentionProblem& p;
  const AdditiveWeights& w;
  PackedKeys keys;
  PackedQueries queries;
};

// A query row, for the family that reads a matrix.
struct RowAt {
  int64_t b, h, i;
};

// m query rows, from row `first` of the block on.
struct RowsPart {
  int64_t first, m;
};

// Keys j … j+n of one panel, whole vectors of them.
struct PanelPart {
  int64_t j, n;
};

// s[m][n] ← scores of those rows, the first of which is `at`, and those keys.
HWY_INLINE void ScorePanel(const ScoreSides& x, const RowAt& at, RowsPart rows, PanelPart part,
                           DenseRows s) {
  const AttentionProblem& p = x.p;
  const int64_t ldq = x.queries.ld;
  const float* q = x.queries.rows + rows.first * ldq;
  const int64_t width = PanelRows(p.D), inside = part.j % kPanel;
  const float* k = x.keys.panels + (part.j - inside) * width + inside;
  if (p.family == Family::dot) {
    MatMul({.a = {q, ldq, 1},
            .b = k,
            .ldb = kPanel,
            .c = s.data,
            .ldc = s.ld,
            .m = rows.m,
            .n = part.n,
            .K = p.D,
            .accumulate = false});
  } else if (p.family == Family::additive) {
    switch (x.keys.range) {
      case Range::small:
        return AdditiveRows<false>({q, ldq, x.w, k, part.n, width, s}, rows.m);
      case Range::medium:
        return AdditiveRows<true>({q, ldq, x.w, k, part.n, width, s}, rows.m);
      case Range::large:
        return AdditiveDirect({q, ldq, x.w, k, part.n, p.D, s}, rows.m);
    }
  } else {
    const float factor = p.scale / p.temperature;
    const int64_t n = std::min(part.n, p.Lk - part.j);
    for (int64_t i = 0; i < rows.m; ++i) {
      const float* from = p.given.row(at.b, at.h, at.i + i) + part.j * p.given.c;
      for (int64_t j = 0; j < n; ++j) s.data[i * s.ld + j] = factor * from[j * p.given.c];
      FillRow(s.data + i * s.ld, n, part.n, 0.0f);
    }
  }
}

inline int64_t QueryFloats(const AttentionProblem& p) {  // of one packed row
  return p.family == Family::additive ? RoundUp(2 * PanelRows(p.D) + kLanes, kLanes)
                                      : RoundUp(p.D, kLanes);
}

struct QueryRows {
  Rows from;
  int64_t n;
};

// As scores against keys of this range want them. Rows whose elements follow one another are read
// where they are; `to` has room for a copy.
HWY_INLINE PackedQueries PackQueries(const AttentionProblem& p, const AdditiveWeights& w,
                                     Range range, const QueryRows& q, float* to) {
  const int64_t ld = QueryFloats(p);
  if (p.family == Family::given) return {to, ld};
  if (p.family == Family::additive && range != Range::large) {
    PackAdditiveQueries(q.from, q.n, p.D, w, {to, ld});
    return {to, ld};
  }
  if (q.from.c == 1) return {q.from.data, q.from.row};
  PackRows(q.from, q.n, p.D, 1.0f, {to, ld});
  return {to, ld};
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_ATTENTION_SCORES_INL_H_
