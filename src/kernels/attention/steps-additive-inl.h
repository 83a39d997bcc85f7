// Additive scores of one query a batch row, the query's gradient, and the keys' over all steps.
#if defined(FOVEA_ATTENTION_STEPS_ADDITIVE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_ATTENTION_STEPS_ADDITIVE_INL_H_
#undef FOVEA_ATTENTION_STEPS_ADDITIVE_INL_H_
#else
#define FOVEA_ATTENTION_STEPS_ADDITIVE_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/attention/steps-rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace {

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
    const Vec x = hn::Add(one, Exp(d, hn::Add(z, z)));
    return KeepNaN(d, x, hn::Min(x, most));
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
    hn::StoreU(Exp(d, hn::Add(v, v)), d, to + c);
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
  const Reach reach = ReachOf(most, m.made->largest_keys[b]);
  for (int64_t t = 0; t < queries; ++t) {
    PadRow(q[t] + b * width, width, m.ld(), reach != Reach::large, room + t * m.ld());
  }
  if (reach != Reach::large) return {room, m.made->keys.data() + b * m.Lk * m.ld(), reach};
  float* k = room + queries * m.ld();
  for (int64_t j = 0; j < m.ends[b]; ++j)
    PadRow(m.keys.row(b, j), width, m.ld(), false, k + j * m.ld());
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
  Vec r = hn::Zero(F()), rr = hn::Zero(F());
  HWY_INLINE Sums() {}  // one that the compiler makes is not of this instruction set
  HWY_INLINE void Add(float g, Vec x) {
    const Vec gr = hn::Mul(hn::Set(F(), g), x);
    r = hn::Add(r, gr);
    rr = hn::MulAdd(gr, x, rr);
  }
};
HWY_INLINE Vec Slope(const Sums& s, const float* u) {
  const F d;
  return hn::Mul(hn::Mul(hn::Set(d, 4.0f), hn::LoadU(d, u)), hn::Sub(s.r, s.rr));
}

// What gradients of additive scores are made of: both sides, ds and u.
struct AdditiveSlopes {
  Sides side;
  const float* g;
  int64_t ldg, steps;  // of g; one step for a query's gradient
  const float* u;
  int64_t ld, width;
};

// dq = 4u∘Σ_j g_j·(r − r²) over n keys, for N vectors of features from c on.
template <Reach kReach, int N>
HWY_INLINE void AdditiveQuery(const AdditiveSlopes& x, int64_t c, int64_t n, float* dq) {
  const F d;
  const Sides side = x.side;
  const float* g = x.g;
  const int64_t ld = x.ld, width = x.width;
  const Vec one = hn::Set(d, 1.0f);
  Vec q[N];
  Sums sums[N];
  for (int v = 0; v < N; ++v) q[v] = hn::LoadU(d, side.q + c + v * kLanes);
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
      const Vec last = OnePlus<kReach>(q[v], hn::LoadU(d, side.k + j * ld + c + v * kLanes));
      sums[v].Add(g[j], hn::Div(one, last));
    }
  }
  for (int v = 0; v < N; ++v) {
    const int64_t at = c + v * kLanes;
    if (at < width) StoreUpTo(Slope(sums[v], x.u + at), dq + at, width - at);
  }
}

// One vector of features, from c on, of R keys, from j on, over all steps: dk of each (null: not
// wanted), and Σ g·r over all.
template <Reach kReach, int R>
HWY_INLINE Vec AdditiveKeys(const AdditiveSlopes& x, int64_t c, int64_t j, float* const* dk,
                            const Vec& total) {
  const F d;
  const Sides side = x.side;
  const int64_t ld = x.ld;
  const Vec one = hn::Set(d, 1.0f);
  Vec k[R];
  Sums sums[R];
  for (int i = 0; i < R; ++i) k[i] = hn::LoadU(d, side.k + (j + i) * ld + c);
  for (int64_t t = 0; t < x.steps; ++t) {
    const Vec q = hn::LoadU(d, side.q + t * ld + c);
    const float* at = x.g + t * x.ldg + j;
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
    if (dk) StoreUpTo(Slope(sums[i], x.u + c), dk[i] + c, x.width - c);
  }
  return all;
}

}  // namespace
}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_ATTENTION_STEPS_ADDITIVE_INL_H_
