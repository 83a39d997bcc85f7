#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/steps.cc"
#include <hwy/foreach_target.h>
// Highway's headers follow the line above.
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/threads.h"
#include "kernels/attention/steps.h"
#include "kernels/math-inl.h"

// One function for one batch row each; below, they are called for all of them.
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
namespace math = fovea::HWY_NAMESPACE;

using F = hn::ScalableTag<float>;
using Vec = hn::Vec<F>;
constexpr int64_t kLanes = hn::MaxLanes(F());
static_assert(kStepPad % (2 * kLanes) == 0);
constexpr float kInf = std::numeric_limits<float>::infinity();

HWY_INLINE float SumOf(Vec v) { return hn::GetLane(hn::SumOfLanes(F(), v)); }

HWY_INLINE void StorePart(Vec v, float* to, int64_t n) {
  if (n >= kLanes) return hn::StoreU(v, F(), to);
  HWY_ALIGN float lanes[kLanes];
  hn::Store(v, F(), lanes);
  std::memcpy(to, lanes, n * sizeof(float));
}

// ---- rows times a vector, and sums of rows -----------------------------------------------------

// s_j = x·m_j, four rows at a time.
template <int R>
HWY_INLINE void DotRows(const float* const* m, const float* x, int64_t width, float* s) {
  const F d;
  Vec sum[R];
  float rest[R] = {};
  for (int i = 0; i < R; ++i) sum[i] = hn::Zero(d);
  int64_t c = 0;
  for (; c + kLanes <= width; c += kLanes) {
    const Vec v = hn::LoadU(d, x + c);
    for (int i = 0; i < R; ++i) sum[i] = hn::MulAdd(v, hn::LoadU(d, m[i] + c), sum[i]);
  }
  for (; c < width; ++c) {
    for (int i = 0; i < R; ++i) rest[i] += x[c] * m[i][c];
  }
  for (int i = 0; i < R; ++i) s[i] = SumOf(sum[i]) + rest[i];
}

HWY_INLINE void DotWithRows(const RowsView<const float>& m, int64_t b, int64_t end, const float* x,
                            float* s) {
  int64_t j = 0;
  for (; j + 4 <= end; j += 4) {
    const float* rows[4] = {m.row(b, j), m.row(b, j + 1), m.row(b, j + 2), m.row(b, j + 3)};
    DotRows<4>(rows, x, m.width, s + j);
  }
  for (; j < end; ++j) {
    const float* row = m.row(b, j);
    DotRows<1>(&row, x, m.width, s + j);
  }
}

// y (+)= Σ_i w_i·m_i over R rows read side by side from end to end: few streams, each one long.
template <int R>
HWY_INLINE void AddRows(const float* const* m, const float* w, int64_t width, bool accumulate,
                        float* y) {
  const F d;
  int64_t c = 0;
  for (; c + kLanes <= width; c += kLanes) {
    Vec sum = accumulate ? hn::LoadU(d, y + c) : hn::Zero(d);
    for (int i = 0; i < R; ++i) sum = hn::MulAdd(hn::Set(d, w[i]), hn::LoadU(d, m[i] + c), sum);
    hn::StoreU(sum, d, y + c);
  }
  for (; c < width; ++c) {
    float sum = accumulate ? y[c] : 0.0f;
    for (int i = 0; i < R; ++i) sum += w[i] * m[i][c];
    y[c] = sum;
  }
}

HWY_INLINE void SumRows(const RowsView<const float>& m, int64_t b, int64_t end, const float* w,
                        float* y) {
  if (end == 0) std::fill_n(y, m.width, 0.0f);
  int64_t j = 0;
  for (; j + 8 <= end; j += 8) {
    const float* rows[8];
    for (int i = 0; i < 8; ++i) rows[i] = m.row(b, j + i);
    AddRows<8>(rows, w + j, m.width, j > 0, y);
  }
  for (; j < end; ++j) {
    const float* row = m.row(b, j);
    AddRows<1>(&row, w + j, m.width, j > 0, y);
  }
}

// ---- softmax of a short row --------------------------------------------------------------------

// A row that is −inf throughout gives 0; what lies behind `end` is 0.
HWY_INLINE void SoftmaxInPlace(float* s, int64_t end, int64_t n, float factor) {
  const F d;
  float most = -kInf;
  for (int64_t j = 0; j < end; ++j) most = std::max(most, s[j] *= factor);
  std::fill(s + end, s + n, 0.0f);
  if (most == -kInf) {
    for (int64_t j = 0; j < end; ++j) s[j] = s[j] == -kInf ? 0.0f : s[j];  // NaN stays
    return;
  }
  float sum = 0.0f;
  for (int64_t j = 0; j < end; j += kLanes) {
    HWY_ALIGN float lanes[kLanes];
    const int64_t m = std::min(kLanes, end - j);
    std::memcpy(lanes, s + j, m * sizeof(float));
    hn::Store(math::Exp(d, hn::Sub(hn::Load(d, lanes), hn::Set(d, most))), d, lanes);
    for (int64_t i = 0; i < m; ++i) sum += s[j + i] = lanes[i];
  }
  for (int64_t j = 0; j < end; ++j) s[j] /= sum;
}

// ---- additive ----------------------------------------------------------------------------------
// tanh(q+k) = 1 − 2r, r = 1/x, x = 1 + e^{2q}·e^{2k}; Σu drops out of a softmax. A division costs
// six products, so two share one: 1/x₁ = x₂/(x₁x₂), u₁/x₁ + u₂/x₂ = (u₁x₂ + u₂x₁)/(x₁x₂).

enum class Reach : uint8_t {
  small,   // |q| + |k| ≤ 20: x < 2⁶⁰, and two multiply without overflow
  medium,  // |q|, |k| ≤ 43: the same of min(x, 2⁶⁰)
  large    // x = 1 + e^{2(q+k)} directly
};

HWY_INLINE Reach ReachOf(float q, float k) {
  if (q + k <= 20.0f) return Reach::small;
  return std::max(q, k) <= 43.0f ? Reach::medium : Reach::large;
}

template <Reach kReach>
HWY_INLINE Vec OnePlus(Vec q, Vec k) {
  const F d;
  const Vec one = hn::Set(d, 1.0f), most = hn::Set(d, 0x1p60f);
  if constexpr (kReach == Reach::large) {
    const Vec z = hn::Add(q, k);
    const Vec x = hn::Add(one, math::Exp(d, hn::Add(z, z)));
    return math::KeepNaN(d, x, hn::Min(x, most));
  }
  const Vec x = hn::MulAdd(q, k, one);
  return kReach == Reach::small ? x : hn::Min(x, most);
}

// The largest |x|; infinite where something is not finite.
HWY_INLINE float LargestOf(const float* x, int64_t n, float most) {
  const F d;
  Vec top = hn::Zero(d), nans = hn::Zero(d);
  float nan = 0.0f;
  int64_t c = 0;
  for (; c + kLanes <= n; c += kLanes) {
    const Vec v = hn::LoadU(d, x + c);
    top = hn::Max(top, hn::Abs(v));
    nans = hn::MulAdd(hn::Zero(d), v, nans);
  }
  for (; c < n; ++c) {
    most = std::max(most, std::abs(x[c]));
    nan += 0.0f * x[c];
  }
  most = std::max(most, hn::GetLane(hn::MaxOfLanes(d, top)));
  return SumOf(nans) + nan == 0.0f ? most : kInf;
}

// to ← x, or e^{2x}; then zeros up to ld.
HWY_INLINE void PadRow(const float* x, int64_t n, int64_t ld, bool exponential, float* to) {
  const F d;
  std::memcpy(to, x, n * sizeof(float));
  std::fill(to + n, to + ld, 0.0f);
  if (!exponential) return;
  for (int64_t c = 0; c < n; c += kLanes) {
    const Vec v = hn::LoadU(d, to + c);
    hn::StoreU(math::Exp(d, hn::Add(v, v)), d, to + c);
  }
  std::fill(to + n, to + ld, 0.0f);
}

// The two sides of row b as OnePlus wants them. `room` holds ld floats a query, and Lk·ld more.
struct Sides {
  const float *q, *k;
  Reach reach;
};
HWY_INLINE Sides SidesOf(const StepMemory& m, int64_t b, const float* const* q, int64_t queries,
                         float* room) {
  const int64_t width = m.keys.width;
  float most = 0.0f;
  for (int64_t t = 0; t < queries; ++t) most = LargestOf(q[t] + b * width, width, most);
  const Reach reach = ReachOf(most, m.largest_keys[b]);
  for (int64_t t = 0; t < queries; ++t) {
    PadRow(q[t] + b * width, width, m.ld, reach != Reach::large, room + t * m.ld);
  }
  if (reach != Reach::large) return {room, m.exponentials.data() + b * m.Lk * m.ld, reach};
  float* k = room + queries * m.ld;
  for (int64_t j = 0; j < m.ends[b]; ++j)
    PadRow(m.keys.row(b, j), width, m.ld, false, k + j * m.ld);
  return {room, k, reach};
}

template <class Body>
HWY_INLINE void ByReach(Reach reach, const Body& body) {
  switch (reach) {
    case Reach::small:
      return body(std::integral_constant<Reach, Reach::small>());
    case Reach::medium:
      return body(std::integral_constant<Reach, Reach::medium>());
    case Reach::large:
      return body(std::integral_constant<Reach, Reach::large>());
  }
}

// s_j = −2 Σ_d u_d·r_jd for R keys.
template <Reach kReach, int R>
HWY_INLINE void AdditiveScores(const float* HWY_RESTRICT q, const float* HWY_RESTRICT k,
                               const float* HWY_RESTRICT u, int64_t ld, float* HWY_RESTRICT s) {
  const F d;
  Vec sum[R];
  for (int i = 0; i < R; ++i) sum[i] = hn::Zero(d);
  for (int64_t c = 0; c < ld; c += 2 * kLanes) {
    const Vec q1 = hn::LoadU(d, q + c), q2 = hn::LoadU(d, q + c + kLanes);
    const Vec u1 = hn::LoadU(d, u + c), u2 = hn::LoadU(d, u + c + kLanes);
    for (int i = 0; i < R; ++i) {
      const Vec x1 = OnePlus<kReach>(q1, hn::LoadU(d, k + i * ld + c));
      const Vec x2 = OnePlus<kReach>(q2, hn::LoadU(d, k + i * ld + c + kLanes));
      const Vec above = hn::MulAdd(u1, x2, hn::Mul(u2, x1));
      sum[i] = hn::Add(sum[i], hn::Div(above, hn::Mul(x1, x2)));
    }
  }
  for (int i = 0; i < R; ++i) s[i] = -2.0f * SumOf(sum[i]);
}

// Σ g·r and Σ g·r²: their difference is the derivative's, the first alone is du's.
struct Sums {
  Vec r, rr;
  HWY_INLINE void Add(float g, Vec x) {
    const Vec gr = hn::Mul(hn::Set(F(), g), x);
    r = hn::Add(r, gr);
    rr = hn::MulAdd(gr, x, rr);
  }
};
HWY_INLINE Sums NoSums() { return {hn::Zero(F()), hn::Zero(F())}; }
HWY_INLINE Vec Slope(const Sums& s, const float* u) {
  const F d;
  return hn::Mul(hn::Mul(hn::Set(d, 4.0f), hn::LoadU(d, u)), hn::Sub(s.r, s.rr));
}

// dq = 4u∘Σ_j g_j·(r − r²), for N vectors of features.
template <Reach kReach, int N>
HWY_INLINE void AdditiveQuery(const Sides& side, int64_t c, int64_t ld, const float* g, int64_t n,
                              const float* u, int64_t width, float* dq) {
  const F d;
  const Vec one = hn::Set(d, 1.0f);
  Vec q[N];
  Sums sums[N];
  for (int v = 0; v < N; ++v) {
    q[v] = hn::LoadU(d, side.q + c + v * kLanes);
    sums[v] = NoSums();
  }
  int64_t j = 0;
  for (; j + 2 <= n; j += 2) {
    const float* k = side.k + j * ld + c;
    for (int v = 0; v < N; ++v) {
      const Vec x1 = OnePlus<kReach>(q[v], hn::LoadU(d, k + v * kLanes));
      const Vec x2 = OnePlus<kReach>(q[v], hn::LoadU(d, k + ld + v * kLanes));
      const Vec both = hn::Div(one, hn::Mul(x1, x2));
      sums[v].Add(g[j], hn::Mul(both, x2));
      sums[v].Add(g[j + 1], hn::Mul(both, x1));
    }
  }
  if (j < n) {
    for (int v = 0; v < N; ++v) {
      const Vec x = OnePlus<kReach>(q[v], hn::LoadU(d, side.k + j * ld + c + v * kLanes));
      sums[v].Add(g[j], hn::Div(one, x));
    }
  }
  for (int v = 0; v < N; ++v) {
    const int64_t at = c + v * kLanes;
    if (at < width) StorePart(Slope(sums[v], u + at), dq + at, width - at);
  }
}

// One vector of features of R keys over all steps: dk of each, and Σ g·r over all.
template <Reach kReach, int R>
HWY_INLINE Vec AdditiveKeys(const Sides& side, int64_t c, int64_t ld, const float* g, int64_t ldg,
                            int64_t steps, int64_t j, const Vec& total, const float* u,
                            float* const* dk, int64_t n) {
  const F d;
  const Vec one = hn::Set(d, 1.0f);
  Vec k[R];
  Sums sums[R];
  for (int i = 0; i < R; ++i) {
    k[i] = hn::LoadU(d, side.k + (j + i) * ld + c);
    sums[i] = NoSums();
  }
  for (int64_t t = 0; t < steps; ++t) {
    const Vec q = hn::LoadU(d, side.q + t * ld + c);
    const float* at = g + t * ldg + j;
    if constexpr (R == 1) {
      sums[0].Add(at[0], hn::Div(one, OnePlus<kReach>(q, k[0])));
    } else {
      for (int i = 0; i < R; i += 2) {
        const Vec x1 = OnePlus<kReach>(q, k[i]), x2 = OnePlus<kReach>(q, k[i + 1]);
        const Vec both = hn::Div(one, hn::Mul(x1, x2));
        sums[i].Add(at[i], hn::Mul(both, x2));
        sums[i + 1].Add(at[i + 1], hn::Mul(both, x1));
      }
    }
  }
  Vec all = total;
  for (int i = 0; i < R; ++i) {
    all = hn::Add(all, sums[i].r);
    if (dk) StorePart(Slope(sums[i], u + c), dk[i] + c, n);
  }
  return all;
}

// ---- Σ_t w_tj·x_t ------------------------------------------------------------------------------

// R rows of N vectors; w [steps][ldw], x [steps][ldx].
template <int R, int N>
HWY_INLINE void OuterTile(const float* HWY_RESTRICT w, int64_t ldw, const float* HWY_RESTRICT x,
                          int64_t ldx, int64_t steps, float* const* to, int64_t n) {
  const F d;
  Vec sum[R][N];
  for (int i = 0; i < R; ++i) {
    for (int v = 0; v < N; ++v) sum[i][v] = hn::Zero(d);
  }
  for (int64_t t = 0; t < steps; ++t, w += ldw, x += ldx) {
    Vec right[N];
    for (int v = 0; v < N; ++v) right[v] = hn::LoadU(d, x + v * kLanes);
    for (int i = 0; i < R; ++i) {
      const Vec left = hn::Set(d, w[i]);
      for (int v = 0; v < N; ++v) sum[i][v] = hn::MulAdd(left, right[v], sum[i][v]);
    }
  }
  for (int i = 0; i < R; ++i) {
    for (int v = 0; v < N; ++v) {
      if (n > v * kLanes) StorePart(sum[i][v], to[i] + v * kLanes, n - v * kLanes);
    }
  }
}

}  // namespace

// ---- a batch row at a time ---------------------------------------------------------------------

void PrepareRow(StepMemory& m, int64_t b) {
  float most = 0.0f;
  for (int64_t j = 0; j < m.ends[b]; ++j) {
    const float* row = m.keys.row(b, j);
    most = LargestOf(row, m.keys.width, most);
    PadRow(row, m.keys.width, m.ld, true, m.exponentials.data() + (b * m.Lk + j) * m.ld);
  }
  m.largest_keys[b] = most;
}

void ForwardRow(const StepMemory& m, int64_t b, const float* q, float factor, float* p,
                float* context, float* room) {
  const int64_t end = m.ends[b], ld = m.ld;
  float* s = p + b * m.Lk;
  if (m.additive && end > 0) {
    const Sides side = SidesOf(m, b, &q, 1, room);
    ByReach(side.reach, [&](auto reach) HWY_ATTR {
      int64_t j = 0;
      for (; j + 4 <= end; j += 4) {
        AdditiveScores<reach(), 4>(side.q, side.k + j * ld, m.u.data(), ld, s + j);
      }
      for (; j < end; ++j) {
        AdditiveScores<reach(), 1>(side.q, side.k + j * ld, m.u.data(), ld, s + j);
      }
    });
  } else {
    DotWithRows(m.keys, b, end, q + b * m.keys.width, s);
  }
  SoftmaxInPlace(s, end, m.Lk, factor);
  SumRows(m.values, b, end, s, context + b * m.values.width);
}

void DWeightsRow(const StepMemory& m, int64_t b, const float* d_context, float* dp) {
  const int64_t end = m.ends[b];
  DotWithRows(m.values, b, end, d_context + b * m.values.width, dp + b * m.Lk);
  std::fill(dp + b * m.Lk + end, dp + (b + 1) * m.Lk, 0.0f);
}

void DQueryRow(const StepMemory& m, int64_t b, const StepGradient& x, float* room) {
  constexpr int kVecs = 4;
  const int64_t end = m.ends[b], at = b * m.Lk, width = m.keys.width;
  float mean = 0.0f;
  for (int64_t j = 0; j < end; ++j) mean += x.p[at + j] * x.dp[at + j];
  float* g = x.g + at;
  for (int64_t j = 0; j < end; ++j) g[j] = x.factor * x.p[at + j] * (x.dp[at + j] - mean);
  std::fill(g + end, g + m.Lk, 0.0f);
  float* dq = x.dq + b * width;
  if (!m.additive || end == 0) return SumRows(m.keys, b, end, g, dq);
  const Sides side = SidesOf(m, b, &x.q, 1, room);
  ByReach(side.reach, [&](auto reach) HWY_ATTR {
    int64_t c = 0;
    for (; c + kVecs * kLanes <= m.ld; c += kVecs * kLanes) {
      AdditiveQuery<reach(), kVecs>(side, c, m.ld, g, end, m.u.data(), width, dq);
    }
    for (; c < m.ld; c += kLanes) {
      AdditiveQuery<reach(), 1>(side, c, m.ld, g, end, m.u.data(), width, dq);
    }
  });
}

// room: steps·(Lk + ld + kPad) floats
void DRowsRow(const StepMemory& m, int64_t b, const std::vector<KeptStep>& kept,
              const RowsView<float>& to, float* room) {
  constexpr int kRows = 8, kVecs = 2;
  const int64_t steps = static_cast<int64_t>(kept.size()), width = to.width, end = m.ends[b];
  const int64_t ldx = (width + kVecs * kLanes - 1) / (kVecs * kLanes) * (kVecs * kLanes);
  float* w = room;
  float* x = room + steps * m.Lk;
  for (int64_t t = 0; t < steps; ++t) {
    std::memcpy(w + t * m.Lk, kept[t].weights + b * m.Lk, m.Lk * sizeof(float));
    PadRow(kept[t].vectors + b * width, width, ldx, false, x + t * ldx);
  }
  for (int64_t c = 0; c < width; c += kVecs * kLanes) {
    int64_t j = 0;
    for (; j + kRows <= end; j += kRows) {
      float* rows[kRows];
      for (int i = 0; i < kRows; ++i) rows[i] = to.row(b, j + i) + c;
      OuterTile<kRows, kVecs>(w + j, m.Lk, x + c, ldx, steps, rows, width - c);
    }
    for (; j < end; ++j) {
      float* row = to.row(b, j) + c;
      OuterTile<1, kVecs>(w + j, m.Lk, x + c, ldx, steps, &row, width - c);
    }
  }
  for (int64_t j = end; j < m.Lk; ++j) std::fill_n(to.row(b, j), width, 0.0f);
}

// room: steps·(Lk + ld) + Lk·ld floats; gr [ld] ← Σ g·r of this row
void DAdditiveRow(const StepMemory& m, int64_t b, const std::vector<KeptStep>& kept,
                  const RowsView<float>& to, float* gr, float* room) {
  const F d;
  const int64_t steps = static_cast<int64_t>(kept.size()), width = m.keys.width, end = m.ends[b];
  std::vector<const float*> queries;
  for (const KeptStep& step : kept) queries.push_back(step.vectors);
  const Sides side = SidesOf(m, b, queries.data(), steps, room);
  float* g = room + (steps + m.Lk) * m.ld;
  for (int64_t t = 0; t < steps; ++t) {
    std::memcpy(g + t * m.Lk, kept[t].weights + b * m.Lk, m.Lk * sizeof(float));
  }
  ByReach(side.reach, [&](auto reach) HWY_ATTR {
    for (int64_t c = 0; c < m.ld; c += kLanes) {
      const int64_t n = width - c;
      Vec total = hn::Zero(d);
      float* rows[4] = {};
      const bool write = to.data != nullptr && n > 0;
      int64_t j = 0;
      for (; j + 4 <= end; j += 4) {
        for (int i = 0; write && i < 4; ++i) rows[i] = to.row(b, j + i);
        total = AdditiveKeys<reach(), 4>(side, c, m.ld, g, m.Lk, steps, j, total, m.u.data(),
                                         write ? rows : nullptr, n);
      }
      for (; j < end; ++j) {
        if (write) rows[0] = to.row(b, j);
        total = AdditiveKeys<reach(), 1>(side, c, m.ld, g, m.Lk, steps, j, total, m.u.data(),
                                         write ? rows : nullptr, n);
      }
      hn::StoreU(total, d, gr + c);
    }
  });
  for (int64_t j = end; to.data && j < m.Lk; ++j) std::fill_n(to.row(b, j), width, 0.0f);
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::kernels {

HWY_EXPORT(PrepareRow);
HWY_EXPORT(ForwardRow);
HWY_EXPORT(DWeightsRow);
HWY_EXPORT(DQueryRow);
HWY_EXPORT(DRowsRow);
HWY_EXPORT(DAdditiveRow);

namespace {

int64_t padded(int64_t width) { return (width + kStepPad - 1) / kStepPad * kStepPad; }

// body(b, room): `room` is the running thread's own.
template <class Body>
void for_rows(const StepMemory& m, int64_t cost, int64_t floats, const Body& body) {
  const Buffer<float> room(threads() * padded(floats));
  parallel_for(m.B, cost,
               [&](int64_t b) { body(b, room.data() + thread_index() * padded(floats)); });
}

int64_t touched(const StepMemory& m) { return m.Lk * (m.keys.width + m.values.width); }

}  // namespace

void StepMemory::prepare(const float* u_from) {
  if (!additive) return;
  ld = padded(keys.width);
  exponentials = Buffer<float>(B * Lk * ld);
  largest_keys.assign(B, 0.0f);
  u = Buffer<float>(ld);
  std::copy(u_from, u_from + keys.width, u.data());
  std::fill(u.data() + keys.width, u.data() + ld, 0.0f);
  parallel_for(B, Lk * ld, [&](int64_t b) { HWY_DYNAMIC_DISPATCH(PrepareRow)(*this, b); });
}

void step_forward(const StepMemory& m, const float* q, float factor, float* p, float* context) {
  for_rows(m, touched(m), (1 + m.Lk) * m.ld, [&](int64_t b, float* room) {
    HWY_DYNAMIC_DISPATCH(ForwardRow)(m, b, q, factor, p, context, room);
  });
}

void step_d_weights(const StepMemory& m, const float* d_context, float* dp) {
  parallel_for(m.B, touched(m), [&](int64_t b) {
    HWY_DYNAMIC_DISPATCH(DWeightsRow)(m, b, d_context, dp);
  });
}

void step_d_query(const StepMemory& m, const StepGradient& x) {
  for_rows(m, touched(m), (1 + m.Lk) * m.ld, [&](int64_t b, float* room) {
    HWY_DYNAMIC_DISPATCH(DQueryRow)(m, b, x, room);
  });
}

void steps_d_rows(const StepMemory& m, const std::vector<KeptStep>& kept,
                  const RowsView<float>& d_rows) {
  const int64_t steps = static_cast<int64_t>(kept.size());
  for_rows(m, steps * touched(m), steps * (m.Lk + padded(d_rows.width)),
           [&](int64_t b, float* room) {
             HWY_DYNAMIC_DISPATCH(DRowsRow)(m, b, kept, d_rows, room);
           });
}

void steps_d_additive(const StepMemory& m, const std::vector<KeptStep>& kept,
                      const RowsView<float>& d_keys, float* du) {
  const int64_t steps = static_cast<int64_t>(kept.size());
  const Buffer<float> gr(m.B * m.ld);
  for_rows(m, steps * touched(m), (steps + m.Lk) * m.ld + steps * m.Lk,
           [&](int64_t b, float* room) {
             HWY_DYNAMIC_DISPATCH(DAdditiveRow)(m, b, kept, d_keys, gr.data() + b * m.ld, room);
           });
  if (du == nullptr) return;
  for (int64_t c = 0; c < m.keys.width; ++c) {
    double sum = 0.0;
    for (int64_t b = 0; b < m.B; ++b) sum += gr[b * m.ld + c];
    du[c] = static_cast<float>(-2.0 * sum);
  }
}

}  // namespace fovea::kernels
#endif
