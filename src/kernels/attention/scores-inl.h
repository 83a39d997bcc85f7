// The score families: raw scores of a few query rows against a panel of keys, and the gradient of
// a tile of scores. Everything else in the kernels is common to all families.
#if defined(FOVEA_ATTENTION_SCORES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_ATTENTION_SCORES_INL_H_
#undef FOVEA_ATTENTION_SCORES_INL_H_
#else
#define FOVEA_ATTENTION_SCORES_INL_H_
#endif

#include "kernels/attention/pack-inl.h"
#include "kernels/attention/problem.h"
#include "kernels/attention/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

// How an additive score computes x = 1 + e^{2(a+κ)}, by the range of its inputs.
enum class Range : uint8_t {
  small,   // |a| + |κ| ≤ 20: e^{2a}·e^{2κ}, nothing to guard
  medium,  // |a|, |κ| ≤ 43: the product may overflow, min(x, 2⁶⁰) mends it
  large    // e^{2(a+κ)} directly
};

constexpr float kLargestX = 0x1p60f;

inline Range RangeOf(float a, float kappa) {
  if (a + kappa <= 20.0f) return Range::small;
  return std::max(a, kappa) <= 43.0f ? Range::medium : Range::large;
}

// The key side of one (b, hk), packed once and shared by its query blocks.
struct PackedKeys {
  const float* panels = nullptr;  // [panel][D][64]; e^{2κ} for additive ranges small and medium
  Range range = Range::small;
  bool finite = true;  // k and v; looked at only when something is masked
};

// The query side of one block.
struct PackedQueries {
  const float* rows = nullptr;  // dot: [n][D] times scale/T. additive large: [n][D] as it is;
  int64_t ld = 0;               // otherwise per pair of features {E₁, E₂, u₂E₁, u₁E₂}, E = e^{2a}
};

// u·scale/T, and what the pairs need of it.
struct AdditiveWeights {
  const float* u = nullptr;      // [D, even], zero padded
  const float* pairs = nullptr;  // u₁ + u₂  [D/2]
  float total = 0.0f;            // Σu
};

// ---- additive ----------------------------------------------------------------------------------
// Σ u·tanh(a+κ) = Σu − 2 Σ u/x,  x = 1 + e^{2a}·e^{2κ}.  Two terms share one division:
// u₁/x₁ + u₂/x₂ = (u₁ + u₂ + u₂E₁K₁ + u₁E₂K₂) / (x₁x₂).

template <int MR, bool kGuard>
HWY_INLINE void AdditiveTile(const float* HWY_RESTRICT q, int64_t ldq, const AdditiveWeights& w,
                             const float* HWY_RESTRICT panel, int64_t n, int64_t pairs,
                             float* HWY_RESTRICT s, int64_t lds) {
  const F d;
  const Vec one = hn::Set(d, 1.0f), most = hn::Set(d, kLargestX);
  for (int64_t j = 0; j < n; j += kLanes) {
    Vec sum[MR];
    HWY_UNROLL(8)
    for (int i = 0; i < MR; ++i) sum[i] = hn::Zero(d);
    for (int64_t p = 0; p < pairs; ++p) {
      const Vec k1 = hn::LoadU(d, panel + (2 * p) * kPanel + j);
      const Vec k2 = hn::LoadU(d, panel + (2 * p + 1) * kPanel + j);
      const Vec both = hn::Set(d, w.pairs[p]);
      HWY_UNROLL(8)
      for (int i = 0; i < MR; ++i) {
        const float* c = q + i * ldq + 4 * p;
        Vec x1 = hn::MulAdd(hn::Set(d, c[0]), k1, one);
        Vec x2 = hn::MulAdd(hn::Set(d, c[1]), k2, one);
        Vec above;
        if constexpr (kGuard) {
          x1 = hn::Min(x1, most);
          x2 = hn::Min(x2, most);
          above = hn::MulAdd(hn::Set(d, w.u[2 * p]), x2, hn::Mul(hn::Set(d, w.u[2 * p + 1]), x1));
        } else {
          above = hn::MulAdd(hn::Set(d, c[3]), k2, hn::MulAdd(hn::Set(d, c[2]), k1, both));
        }
        sum[i] = hn::Add(sum[i], hn::Div(above, hn::Mul(x1, x2)));
      }
    }
    HWY_UNROLL(8)
    for (int i = 0; i < MR; ++i) {
      hn::StoreU(hn::NegMulAdd(hn::Set(d, 2.0f), sum[i], hn::Set(d, w.total)), d, s + i * lds + j);
    }
  }
}

HWY_INLINE Vec DirectX(Vec a, Vec kappa) {
  const F d;
  const Vec z = hn::Add(a, kappa);
  return hn::Add(hn::Set(d, 1.0f), Exp(hn::Min(hn::Add(z, z), hn::Set(d, 80.0f))));
}

HWY_NOINLINE void AdditiveDirect(const float* q, int64_t ldq, const AdditiveWeights& w,
                                 const float* panel, int64_t n, int64_t width, int64_t m, float* s,
                                 int64_t lds) {
  const F d;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; j += kLanes) {
      Vec sum = hn::Zero(d);
      for (int64_t k = 0; k < width; ++k) {
        const Vec x = DirectX(hn::Set(d, q[i * ldq + k]), hn::LoadU(d, panel + k * kPanel + j));
        sum = hn::Add(sum, hn::Div(hn::Set(d, w.u[k]), x));
      }
      hn::StoreU(hn::NegMulAdd(hn::Set(d, 2.0f), sum, hn::Set(d, w.total)), d, s + i * lds + j);
    }
  }
}

template <bool kGuard>
HWY_NOINLINE void AdditiveRows(const float* q, int64_t ldq, const AdditiveWeights& w,
                               const float* panel, int64_t n, int64_t pairs, int64_t m, float* s,
                               int64_t lds) {
  int64_t i = 0;
  for (; i + 4 <= m; i += 4) {
    AdditiveTile<4, kGuard>(q + i * ldq, ldq, w, panel, n, pairs, s + i * lds, lds);
  }
  for (; i < m; ++i) AdditiveTile<1, kGuard>(q + i * ldq, ldq, w, panel, n, pairs, s + i * lds, lds);
}

HWY_NOINLINE void PackAdditiveQueries(Rows from, int64_t n, int64_t width, const AdditiveWeights& w,
                                      float* to, int64_t ld, float* row) {
  for (int64_t i = 0; i < n; ++i, to += ld) {
    const int64_t even = RoundUp(width, 2);
    PackRows({from.data + i * from.row, from.row, from.c}, 1, width, 1.0f, row, RoundUp(even, kLanes));
    ExpTwice(row, RoundUp(even, kLanes));
    if (width & 1) row[width] = 0.0f;
    for (int64_t p = 0; p < even / 2; ++p) {
      to[4 * p] = row[2 * p];
      to[4 * p + 1] = row[2 * p + 1];
      to[4 * p + 2] = w.u[2 * p + 1] * row[2 * p];
      to[4 * p + 3] = w.u[2 * p] * row[2 * p + 1];
    }
  }
}

// With g = ds and r = 1/x: 1 − tanh² = 4(r − r²), so s = g·r − g·r², da += s, dκ += s (both times
// 4u at the end), and du = Σg − 2 Σ g·r. Lanes over features, MR query rows in registers.
template <int MR, Range kRange>
HWY_INLINE void AdditiveGradTile(const float* HWY_RESTRICT ea, const float* HWY_RESTRICT ek,
                                 int64_t ld, const float* HWY_RESTRICT g, int64_t ldg, int64_t n,
                                 float* HWY_RESTRICT da, float* HWY_RESTRICT dk,
                                 float* HWY_RESTRICT gr_sum) {
  const F d;
  const Vec one = hn::Set(d, 1.0f), most = hn::Set(d, kLargestX);
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
      Vec dkj = hn::LoadU(d, dk + j * ld + c);
      HWY_UNROLL(8)
      for (int i = 0; i < MR; ++i) {
        Vec x;
        if constexpr (kRange == Range::small) x = hn::MulAdd(e[i], k, one);
        if constexpr (kRange == Range::medium) x = hn::Min(hn::MulAdd(e[i], k, one), most);
        if constexpr (kRange == Range::large) x = DirectX(e[i], k);
        const Vec r = Reciprocal(x);
        const Vec gr = hn::Mul(hn::Set(d, g[i * ldg + j]), r);
        const Vec s = hn::NegMulAdd(gr, r, gr);
        sum[i] = hn::Add(sum[i], s);
        dkj = hn::Add(dkj, s);
        total = hn::Add(total, gr);
      }
      hn::StoreU(dkj, d, dk + j * ld + c);
    }
    HWY_UNROLL(8)
    for (int i = 0; i < MR; ++i) hn::StoreU(sum[i], d, da + i * ld + c);
    hn::StoreU(total, d, gr_sum + c);
  }
}

template <Range kRange>
HWY_NOINLINE void AdditiveGradRows(const float* ea, const float* ek, int64_t ld, const float* g,
                                   int64_t ldg, int64_t m, int64_t n, bool finite, float* da,
                                   float* dk, float* gr_sum) {
  int64_t i = 0;
  if (finite) {
    for (; i + 4 <= m; i += 4) {
      AdditiveGradTile<4, kRange>(ea + i * ld, ek, ld, g + i * ldg, ldg, n, da + i * ld, dk, gr_sum);
    }
    for (; i < m; ++i) {
      AdditiveGradTile<1, kRange>(ea + i * ld, ek, ld, g + i * ldg, ldg, n, da + i * ld, dk, gr_sum);
    }
    return;
  }
  for (; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const float* gij = g + i * ldg + j;
      if (*gij == 0.0f) continue;
      AdditiveGradTile<1, kRange>(ea + i * ld, ek + j * ld, ld, gij, ldg, 1, da + i * ld, dk + j * ld,
                                  gr_sum);
    }
  }
}

// ---- one panel of any family -------------------------------------------------------------------

struct ScoreBlock {  // where a block's rows are, for the family that reads a matrix
  int64_t b, h, i;
};

// Keys j … j+n of one panel, whole vectors of them.
struct PanelPart {
  int64_t j, n;
};

// s[m][n] ← scores of m query rows (the first is row `first` of the block) and those keys.
HWY_INLINE void ScorePanel(const AttentionProblem& p, const PackedKeys& keys,
                           const PackedQueries& queries, const AdditiveWeights& w,
                           const ScoreBlock& at, int64_t first, int64_t m, PanelPart part, float* s,
                           int64_t lds) {
  const float* q = queries.rows + first * queries.ld;
  const int64_t width = RoundUp(p.D, 2), inside = part.j % kPanel;
  const float* k = keys.panels + (part.j - inside) * width + inside;
  if (p.family == Family::dot) {
    MatMul({q, queries.ld, 1}, k, kPanel, s, lds, m, part.n, p.D, false);
  } else if (p.family == Family::additive) {
    switch (keys.range) {
      case Range::small: return AdditiveRows<false>(q, queries.ld, w, k, part.n, width / 2, m, s, lds);
      case Range::medium: return AdditiveRows<true>(q, queries.ld, w, k, part.n, width / 2, m, s, lds);
      case Range::large: return AdditiveDirect(q, queries.ld, w, k, part.n, p.D, m, s, lds);
    }
  } else {
    const float factor = p.scale / p.temperature;
    const int64_t n = std::min(part.n, p.Lk - part.j);
    for (int64_t i = 0; i < m; ++i) {
      const float* from = p.given.row(at.b, at.h, at.i + first + i) + part.j * p.given.c;
      for (int64_t j = 0; j < n; ++j) s[i * lds + j] = factor * from[j * p.given.c];
      FillRow(s + i * lds, n, part.n, 0.0f);
    }
  }
}

inline int64_t QueryFloats(const AttentionProblem& p) {  // of one packed row
  return p.family == Family::additive ? RoundUp(2 * RoundUp(p.D, 2), kLanes) : RoundUp(p.D, kLanes);
}

HWY_INLINE PackedQueries PackQueries(const AttentionProblem& p, Range range, const AdditiveWeights& w,
                                     Rows from, int64_t n, float* to, float* row) {
  const int64_t ld = QueryFloats(p);
  if (p.family == Family::dot) {
    PackRows(from, n, p.D, p.scale / p.temperature, to, ld);
  } else if (p.family == Family::additive) {
    if (range == Range::large) {
      PackRows(from, n, p.D, 1.0f, to, ld);
    } else {
      PackAdditiveQueries(from, n, p.D, w, to, ld, row);
    }
  }
  return {to, ld};
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_ATTENTION_SCORES_INL_H_
