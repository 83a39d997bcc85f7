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

#include "core/processor.h"
#include "kernels/attention/pack-inl.h"
#include "kernels/attention/pairs-inl.h"
#include "kernels/attention/problem.h"
#include "kernels/attention/simd-inl.h"
#include "kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

// How an additive score computes x = 1 + e^{2(a+κ)}, by the range of its inputs.
enum class Range : uint8_t {
  small,   // x = 1 + e^{2a}·e^{2κ}, and two x/u multiply without overflow
  medium,  // |a|, |κ| ≤ 43: the same of min(x, 2⁶⁰)
  large    // x = 1 + e^{2(a+κ)} directly
};

constexpr float kLargestX = 0x1p60f;

// The key side of one (b, hk), packed once and shared by its query blocks.
struct PackedKeys {
  const float* panels = nullptr;    // [panel][D][64]: k·scale/T, or κ, or e^{2κ}
  const uint32_t* pairs = nullptr;  // instead, of bf16: [panel][D/2][64] words
  Range range = Range::small;
  bool finite = true;  // k and v; looked at only where some weights may be 0
};

struct QueryRows {
  Rows from;
  int64_t n;
};

// The query side of one block.
struct PackedQueries {
  const float* rows = nullptr;  // dot and additive large: [n][D] as it is;
  int64_t ld = 0;               // additive small: e^{2a}/u, medium: e^{2a}; bf16 keys: q·scale/T
  const uint32_t* words = nullptr;  // instead, where words are multiplied: [n][D/2]
};

// bf16 keys stay so, where a vector has more than one number; with queries of bf16, and a processor
// that can, words are multiplied.
inline bool KeysInPairs(const AttentionProblem& p) {
  return p.k16 && p.k16.type == Number::bf16 && kLanes > 1;
}
inline bool ValuesInPairs(const AttentionProblem& p) {
  return p.v16 && p.v16.type == Number::bf16 && kLanes > 1;
}
inline bool MultipliesWords(const AttentionProblem& p) {
  return KeysInPairs(p) && p.q16 && p.q16.type == Number::bf16 && HasBf16Dots();
}

// Words of a packed key, filled up with zeros to what the matrix unit takes at a time.
inline int64_t KeyWords(const AttentionProblem& p) {
  return p.matrix_unit ? UnitWords(p.D) : PanelRows(p.D) / 2;
}

// u·scale/T, its inverse, and how sums of u/x become scores.
struct AdditiveWeights {
  const float* u = nullptr;         // [D] and zeros to whole vectors
  const float* inverse = nullptr;   // most/u, and 0 where u is next to nothing
  const float* constant = nullptr;  // the same, and kNothing there
  float most = 0.0f;                // max |u|
  float total = 0.0f;               // Σu
  float offset = 0.0f;              // the same, and 2·most/kNothing for each of those
  float reach = 0.0f;               // |a| + |κ| up to which the range is small
  Inverses inverses = Inverses::shared;
};

constexpr float kNothing = 0x1p32f;

inline Range RangeOf(float a, float kappa, const AdditiveWeights& w) {
  if (a + kappa <= w.reach) return Range::small;
  return std::max(a, kappa) <= 43.0f ? Range::medium : Range::large;
}

// ---- additive ----------------------------------------------------------------------------------
// Σ u·tanh(a+κ) = Σu − 2 Σ u/x,  x = 1 + e^{2a}·e^{2κ}.  A division keeps its unit busy for as long
// as six products take, so two terms share it. With y = x/u, which is one multiply-add of 1/u,
// e^{2a}/u and e^{2κ}: 1/y₁ + 1/y₂ = (y₁ + y₂)/(y₁y₂). u is taken relative to the largest.

HWY_INLINE Vec PairOf(Vec y1, Vec y2, Vec sum) {
  return hn::Add(sum, hn::Div(hn::Add(y1, y2), hn::Mul(y1, y2)));
}

// The same by an estimate of 14 bits and Newton's step: more products, and the unit is left alone.
HWY_INLINE Vec PairByEstimate(Vec y1, Vec y2, Vec sum) {
  const Vec product = hn::Mul(y1, y2);
  const Vec r = hn::ApproximateReciprocal(product);
  const Vec better = hn::Mul(r, hn::NegMulAdd(product, r, hn::Set(F(), 2.0f)));
  return hn::MulAdd(hn::Add(y1, y2), better, sum);
}

HWY_INLINE Vec GuardedPair(const float* e, const float* u, Vec k1, Vec k2, Vec sum) {
  const F d;
  const Vec one = hn::Set(d, 1.0f), most = hn::Set(d, kLargestX);
  const Vec x1 = hn::Min(hn::MulAdd(hn::Set(d, e[0]), k1, one), most);
  const Vec x2 = hn::Min(hn::MulAdd(hn::Set(d, e[1]), k2, one), most);
  const Vec above = hn::MulAdd(hn::Set(d, u[0]), x2, hn::Mul(hn::Set(d, u[1]), x1));
  return hn::Add(sum, hn::Div(above, hn::Mul(x1, x2)));
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

// Of 16 features one pair is computed by an estimate, where the processor has good ones: then the
// division unit and the multipliers are busy for equally long. All are where divisions are slow.
constexpr bool kEstimates = HWY_TARGET <= HWY_AVX3;
constexpr int64_t kFeatures = 16, kEstimated = 6;

enum class Divide : uint8_t { guarded, mostly, never };

// Rows first … first + MR.
template <int MR, Divide kDivide>
HWY_INLINE void AdditiveTile(const AdditivePanel& x, int64_t first) {
  const F d;
  const AdditiveWeights& w = x.w;
  const int64_t ldq = x.ldq, lds = x.s.ld, width = x.width, n = x.n;
  const float* HWY_RESTRICT q = x.q + first * ldq;
  const float* HWY_RESTRICT panel = x.panel;
  const float* HWY_RESTRICT constant = w.constant;
  float* HWY_RESTRICT s = x.s.data + first * lds;
  constexpr bool kGuard = kDivide == Divide::guarded;
  const Vec offset = hn::Set(d, kGuard ? w.total : w.offset);
  const Vec factor = hn::Set(d, kGuard ? 2.0f : 2.0f * w.most);
  for (int64_t j = 0; j < n; j += kLanes) {
    Vec sum[MR];
    HWY_UNROLL(4)
    for (int i = 0; i < MR; ++i) sum[i] = hn::Zero(d);
    const auto add = [&](int64_t a, bool estimate) HWY_ATTR {  // features a and a + 1
      const Vec k1 = hn::LoadU(d, panel + a * kPanelKeys + j);
      const Vec k2 = hn::LoadU(d, panel + (a + 1) * kPanelKeys + j);
      HWY_UNROLL(4)
      for (int i = 0; i < MR; ++i) {
        const float* e = q + i * ldq + a;
        if constexpr (kGuard) {
          sum[i] = GuardedPair(e, w.u + a, k1, k2, sum[i]);
        } else {
          const Vec y1 = hn::MulAdd(hn::Set(d, e[0]), k1, hn::Set(d, constant[a]));
          const Vec y2 = hn::MulAdd(hn::Set(d, e[1]), k2, hn::Set(d, constant[a + 1]));
          sum[i] = estimate ? PairByEstimate(y1, y2, sum[i]) : PairOf(y1, y2, sum[i]);
        }
      }
    };
    int64_t a = 0;
    for (; kEstimates && !kGuard && a + kFeatures <= width; a += kFeatures) {
      HWY_UNROLL(8)
      for (int64_t f = 0; f < kFeatures; f += 2) {
        add(a + f, kDivide == Divide::never || f == kEstimated);
      }
    }
    for (; a < width; a += 2) add(a, kDivide == Divide::never);
    HWY_UNROLL(4)
    for (int i = 0; i < MR; ++i) {
      hn::StoreU(hn::NegMulAdd(factor, sum[i], offset), d, s + i * lds + j);
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
  return hn::Add(hn::Set(F(), 1.0f), FastExpTo88(F(), AtMost(hn::Add(z, z), 80.0f)));
}

HWY_NOINLINE void AdditiveDirect(const AdditivePanel& x, int64_t m) {
  const F d;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < x.n; j += kLanes) {
      Vec sum = hn::Zero(d);
      for (int64_t k = 0; k < x.width; ++k) {
        const Vec at =
            DirectX(hn::Set(d, x.q[i * x.ldq + k]), hn::LoadU(d, x.panel + k * kPanelKeys + j));
        sum = hn::Add(sum, hn::Div(hn::Set(d, x.w.u[k]), at));
      }
      hn::StoreU(hn::NegMulAdd(hn::Set(d, 2.0f), sum, hn::Set(d, x.w.total)), d,
                 x.s.data + i * x.s.ld + j);
    }
  }
}

template <Divide kDivide>
HWY_NOINLINE void AdditiveRows(const AdditivePanel& x, int64_t m) {
  int64_t i = 0;
  for (; i + 4 <= m; i += 4) AdditiveTile<4, kDivide>(x, i);
  for (; i < m; ++i) AdditiveTile<1, kDivide>(x, i);
}

HWY_INLINE void SmallAdditiveRows(const AdditivePanel& x, int64_t m) {
  if constexpr (kEstimates) {
    if (x.w.inverses == Inverses::estimated) return AdditiveRows<Divide::never>(x, m);
  }
  AdditiveRows<Divide::mostly>(x, m);
}

// e^{2a}, or that over u.
HWY_NOINLINE void PackAdditiveQueries(const QueryRows& q, int64_t width, const float* inverse,
                                      DenseRows out) {
  const F d;
  PackRows(q.from, q.n, width, 1.0f, out);
  ExpTwice(out.data, q.n * out.ld);
  for (int64_t i = 0; i < q.n && inverse; ++i) {
    float* to = out.data + i * out.ld;
    for (int64_t k = 0; k < width; k += kLanes) {
      hn::StoreU(hn::Mul(hn::LoadU(d, to + k), hn::LoadU(d, inverse + k)), d, to + k);
    }
  }
}

// With g = ds and r = 1/x: 1 − tanh² = 4(r − r²), so s = g·r − g·r², da += s, dκ += s (both times
// 4u at the end), and du = Σg − 2 Σ g·r. Lanes over features, MR query rows in registers. Keys and
// their gradients lie in columns of vectors, [D/lanes][Lk][lanes], so that both are streams.

template <Range kRange>
HWY_INLINE Vec AdditiveX(Vec e, Vec k) {
  const F d;
  if constexpr (kRange == Range::large) return AtMost(DirectX(e, k), kLargestX);
  const Vec x = hn::MulAdd(e, k, hn::Set(d, 1.0f));
  return kRange == Range::small ? x : hn::Min(x, hn::Set(d, kLargestX));
}

// ds of query rows and keys, their exponentials, and what they are added to. Rows of queries are
// `ld` apart; columns of keys `column`.
struct AdditiveGrad {
  const float *ea, *ek;
  int64_t ld, column;
  const float* g;
  int64_t ldg;
  float *da, *dk, *gr_sum;
};
HWY_INLINE AdditiveGrad From(const AdditiveGrad& x, int64_t i, int64_t j) {
  AdditiveGrad y = x;
  y.ea += i * x.ld, y.da += i * x.ld;
  y.ek += j * kLanes, y.dk += j * kLanes;
  y.g += i * x.ldg + j;
  return y;
}

// 1/x of a row's features. Two vectors of them share a division, 1/x₁ = x₂/(x₁x₂): the unit that
// divides takes six cycles, a product one. Of four rows two have one each, so that it and the
// multipliers are equally busy. Rows never share one: a row's gradient depends on no other. Nor do
// features that may not be finite. Where the three products of sharing take as long as an estimate
// and Newton's step, every other row has these instead; where divisions take far longer, all have.
template <int kVectors, Inverses kBy>
HWY_INLINE void Invert(const Vec (&x)[kVectors], Vec (&r)[kVectors], int row, bool finite) {
  const Vec one = hn::Set(F(), 1.0f);
  const bool even = row % 2 == 0;
  if (kBy == Inverses::estimated || (kBy == Inverses::by_turns && even)) {
    HWY_UNROLL(2)
    for (int v = 0; v < kVectors; ++v) {
      const Vec near = hn::ApproximateReciprocal(x[v]);
      r[v] = hn::Mul(near, hn::NegMulAdd(x[v], near, hn::Set(F(), 2.0f)));
    }
    return;
  }
  if (kBy == Inverses::shared && kVectors == 2 && finite && even) {
    const Vec both = hn::Div(one, hn::Mul(x[0], x[kVectors - 1]));
    r[0] = hn::Mul(both, x[kVectors - 1]);
    r[kVectors - 1] = hn::Mul(both, x[0]);
    return;
  }
  HWY_UNROLL(2)
  for (int v = 0; v < kVectors; ++v) r[v] = hn::Div(one, x[v]);
}

// kVectors vectors of features from the c-th vector on.
template <int MR, int kVectors, Range kRange, bool kFinite, Inverses kBy>
HWY_INLINE void AdditiveGradTile(const AdditiveGrad& t, int64_t n, int64_t c) {
  const int64_t ld = t.ld, ldg = t.ldg, column = t.column;
  const float* HWY_RESTRICT g = t.g;
  const float* HWY_RESTRICT ek = t.ek + c * column;
  float* HWY_RESTRICT dk = t.dk + c * column;
  const F d;
  Vec e[MR][kVectors], da[MR][kVectors], total[kVectors];
  HWY_UNROLL(4)
  for (int i = 0; i < MR; ++i) {
    HWY_UNROLL(2)
    for (int v = 0; v < kVectors; ++v) {
      e[i][v] = hn::LoadU(d, t.ea + i * ld + (c + v) * kLanes);
      da[i][v] = hn::LoadU(d, t.da + i * ld + (c + v) * kLanes);
    }
  }
  HWY_UNROLL(2)
  for (int v = 0; v < kVectors; ++v) total[v] = hn::LoadU(d, t.gr_sum + (c + v) * kLanes);
  for (int64_t j = 0; j < n; ++j) {
    Vec k[kVectors], gr_sum[kVectors], ds_sum[kVectors];
    HWY_UNROLL(2)
    for (int v = 0; v < kVectors; ++v) k[v] = hn::LoadU(d, ek + v * column + j * kLanes);
    HWY_UNROLL(4)
    for (int i = 0; i < MR; ++i) {
      Vec x[kVectors], r[kVectors];
      HWY_UNROLL(2)
      for (int v = 0; v < kVectors; ++v) x[v] = AdditiveX<kRange>(e[i][v], k[v]);
      Invert<kVectors, kBy>(x, r, i, kFinite);
      const Vec gi = hn::Set(d, g[i * ldg + j]);
      HWY_UNROLL(2)
      for (int v = 0; v < kVectors; ++v) {
        const Vec gr = hn::Mul(gi, r[v]);
        const Vec ds = hn::NegMulAdd(gr, r[v], gr);
        da[i][v] = hn::Add(da[i][v], ds);
        gr_sum[v] = i == 0 ? gr : hn::Add(gr_sum[v], gr);
        ds_sum[v] = i == 0 ? ds : hn::Add(ds_sum[v], ds);
      }
    }
    HWY_UNROLL(2)
    for (int v = 0; v < kVectors; ++v) {
      float* at = dk + v * column + j * kLanes;
      total[v] = hn::Add(total[v], gr_sum[v]);
      hn::StoreU(hn::Add(hn::LoadU(d, at), ds_sum[v]), d, at);
    }
  }
  HWY_UNROLL(4)
  for (int i = 0; i < MR; ++i) {
    HWY_UNROLL(2)
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(da[i][v], d, t.da + i * ld + (c + v) * kLanes);
    }
  }
  HWY_UNROLL(2)
  for (int v = 0; v < kVectors; ++v) hn::StoreU(total[v], d, t.gr_sum + (c + v) * kLanes);
}

template <int MR, Range kRange, bool kFinite, Inverses kBy>
HWY_INLINE void AdditiveGradTiles(const AdditiveGrad& t, int64_t n) {
  const int64_t vectors = t.ld / kLanes;
  int64_t c = 0;
  for (; c + 2 <= vectors; c += 2) AdditiveGradTile<MR, 2, kRange, kFinite, kBy>(t, n, c);
  if (c < vectors) AdditiveGradTile<MR, 1, kRange, kFinite, kBy>(t, n, c);
}

// m rows and n keys. What is not finite is kept out of sums where its g is 0.
template <Range kRange, Inverses kBy = Inverses::shared>
HWY_NOINLINE void AdditiveGradRows(const AdditiveGrad& x, int64_t m, int64_t n, bool finite) {
  int64_t i = 0;
  if (finite) {
    for (; kManyRegisters && i + 4 <= m; i += 4) {
      AdditiveGradTiles<4, kRange, true, kBy>(From(x, i, 0), n);
    }
    for (; i + 2 <= m; i += 2) AdditiveGradTiles<2, kRange, true, kBy>(From(x, i, 0), n);
    if (i < m) AdditiveGradTiles<1, kRange, true, kBy>(From(x, i, 0), n);
    return;
  }
  for (; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      if (x.g[i * x.ldg + j] != 0.0f) {
        AdditiveGradTiles<1, kRange, false, Inverses::shared>(From(x, i, j), 1);
      }
    }
  }
}

inline auto AdditiveGradOf(Range range, Inverses by) {
  if (range == Range::large) return &AdditiveGradRows<Range::large>;
  if (range == Range::medium) return &AdditiveGradRows<Range::medium>;
  if constexpr (kEstimates) {
    if (by == Inverses::estimated) return &AdditiveGradRows<Range::small, Inverses::estimated>;
    if (by == Inverses::by_turns) return &AdditiveGradRows<Range::small, Inverses::by_turns>;
  }
  return &AdditiveGradRows<Range::small>;
}

// κ, or e^{2κ} with a look at the size of κ, into columns of vectors.
HWY_NOINLINE void PackColumns(Rows from, int64_t n, int64_t width, Magnitude* exponential,
                              float* to) {
  const F d;
  HWY_ALIGN float last[kLanes];
  for (int64_t j = 0; j < n; ++j) {
    const float* row = from.data + j * from.row;
    for (int64_t c = 0; c < width; c += kLanes) {
      Vec v;
      if (from.c == 1 && c + kLanes <= width) {
        v = hn::LoadU(d, row + c);
      } else {
        for (int64_t i = 0; i < kLanes; ++i) last[i] = c + i < width ? row[(c + i) * from.c] : 0.0f;
        v = hn::Load(d, last);
      }
      if (exponential) {
        exponential->See(v);
        v = FastExpTo88(F(), hn::Add(v, v));
      }
      hn::StoreU(v, d, to + c * n + j * kLanes);
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

// s ← c·tanh(s/c), c = softcap/T: scale and temperature are in s already.
HWY_NOINLINE void CapRows(const AttentionProblem& p, DenseRows s, int64_t m, int64_t n) {
  const F d;
  const Vec cap = hn::Set(d, p.softcap / p.temperature);
  for (int64_t i = 0; i < m; ++i) {
    float* row = s.data + i * s.ld;
    for (int64_t j = 0; j < n; j += kLanes) {
      hn::StoreU(hn::Mul(cap, Tanh(d, hn::Div(hn::LoadU(d, row + j), cap))), d, row + j);
    }
  }
}

// The slope at which a row was capped: 1 − tanh².
HWY_NOINLINE void CapSlopes(const AttentionProblem& p, const float* s, int64_t n, float* slopes) {
  const F d;
  const Vec inverse = hn::Set(d, p.temperature / p.softcap);
  for (int64_t j = 0; j < n; j += kLanes) {
    const Vec t = hn::Mul(hn::LoadU(d, s + j), inverse);
    hn::StoreU(hn::NegMulAdd(t, t, hn::Set(d, 1.0f)), d, slopes + j);
  }
}

// ds ← ds·slope; what is 0 stays 0, whatever a hidden score was.
HWY_NOINLINE void TakeSlopes(const float* slopes, int64_t n, float* ds) {
  const F d;
  for (int64_t j = 0; j < n; j += kLanes) {
    const Vec g = hn::LoadU(d, ds + j);
    const Vec product = hn::Mul(g, hn::LoadU(d, slopes + j));
    hn::StoreU(hn::IfThenZeroElse(hn::Eq(g, hn::Zero(d)), product), d, ds + j);
  }
}

// The same with keys in pairs.
HWY_INLINE void PairsPanel(const ScoreSides& x, RowsPart rows, PanelPart part, DenseRows s) {
  const AttentionProblem& p = x.p;
  const int64_t ldq = x.queries.ld, words = KeyWords(p), inside = part.j % kPanelKeys;
  const uint32_t* k = x.keys.pairs + (part.j - inside) * words + inside;
  // `apart`: what a step takes of a query.
  const auto product = [&](auto by, const auto* q, int64_t apart, float factor) HWY_ATTR {
    return ProductBy<decltype(by)>{.a = {q + rows.first * ldq, ldq, apart},
                                   .b = k,
                                   .ldb = kPanelKeys,
                                   .c = s.data,
                                   .ldc = s.ld,
                                   .m = rows.m,
                                   .n = part.n,
                                   .K = words,
                                   .factor = factor,
                                   .accumulate = false};
  };
  if (!x.queries.words) return MatMulOnce(product(ByPairs(), x.queries.rows, 2, 1.0f));
  const auto by_words = product(ByHalfWords(), x.queries.words, 1, p.scale / p.temperature);
  if (p.matrix_unit) return MatMulByUnit(by_words);
  MatMulOnce(by_words);
}

// s[m][n] ← scores of those rows, the first of which is `at`, and those keys, before the cap.
HWY_INLINE void RawPanel(const ScoreSides& x, const RowAt& at, RowsPart rows, PanelPart part,
                         DenseRows s) {
  const AttentionProblem& p = x.p;
  if (x.keys.pairs) return PairsPanel(x, rows, part, s);
  const int64_t ldq = x.queries.ld;
  const float* q = x.queries.rows + rows.first * ldq;
  const int64_t width = PanelRows(p.D), inside = part.j % kPanelKeys;
  const float* k = x.keys.panels + (part.j - inside) * width + inside;
  if (p.family == Family::dot) {
    MatMul({.a = {q, ldq, 1},
            .b = k,
            .ldb = kPanelKeys,
            .c = s.data,
            .ldc = s.ld,
            .m = rows.m,
            .n = part.n,
            .K = p.D,
            .accumulate = false});
  } else if (p.family == Family::additive) {
    switch (x.keys.range) {
      case Range::small:
        return SmallAdditiveRows({q, ldq, x.w, k, part.n, width, s}, rows.m);
      case Range::medium:
        return AdditiveRows<Divide::guarded>({q, ldq, x.w, k, part.n, width, s}, rows.m);
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

// The same, capped.
HWY_INLINE void ScorePanel(const ScoreSides& x, const RowAt& at, RowsPart rows, PanelPart part,
                           DenseRows s) {
  RawPanel(x, at, rows, part, s);
  if (x.p.softcap > 0.0f) CapRows(x.p, s, rows.m, part.n);
}

inline int64_t QueryFloats(const AttentionProblem& p) {  // of one packed row
  return RoundUp(PanelRows(p.D), kLanes);
}

// Queries of bf16, as words; in place where they can be. The matrix unit wants them filled up.
HWY_INLINE PackedQueries QueryWords(const AttentionProblem& p, const QueryRows& q, DenseRows to) {
  const bool whole = p.D % (2 * unit::kSide) == 0 && q.n % unit::kSide == 0;
  if (WordsInPlace(q.from, p.D) && (whole || !p.matrix_unit)) {
    return {nullptr, q.from.row / 2, reinterpret_cast<const uint32_t*>(q.from.halves)};
  }
  auto* words = reinterpret_cast<uint32_t*>(to.data);
  for (int64_t i = 0; i < q.n; ++i) {
    uint32_t* row = words + i * to.ld;
    FeaturePairs(q.from.halves + i * q.from.row, q.from.c, p.D, row);
    std::fill(row + PanelRows(p.D) / 2, row + KeyWords(p), 0u);
  }
  const int64_t rows = p.matrix_unit ? RoundUp(q.n, unit::kSide) : q.n;
  std::fill(words + q.n * to.ld, words + rows * to.ld, 0u);
  return {nullptr, to.ld, words};
}

// As scores against keys of this range want them. Rows whose elements follow one another are read
// where they are; `to` has room for a copy.
HWY_INLINE PackedQueries PackQueries(const AttentionProblem& p, const AdditiveWeights& w,
                                     Range range, const QueryRows& q, float* to) {
  const int64_t ld = QueryFloats(p);
  if (p.family == Family::given) return {to, ld};
  if (p.family == Family::additive && range != Range::large) {
    PackAdditiveQueries(q, p.D, range == Range::small ? w.inverse : nullptr, {to, ld});
    return {to, ld};
  }
  if (MultipliesWords(p)) return QueryWords(p, q, {to, ld});
  const bool pairs = KeysInPairs(p);
  if (q.from.c == 1 && !q.from.halves && !pairs) return {q.from.data, q.from.row};
  PackRows(q.from, q.n, p.D, pairs ? p.scale / p.temperature : 1.0f, {to, ld});
  return {to, ld};
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_ATTENTION_SCORES_INL_H_
