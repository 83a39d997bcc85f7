// What happens to a row of scores: masks and biases, the weighting, and its gradient.
#if defined(FOVEA_ATTENTION_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_ATTENTION_ROWS_INL_H_
#undef FOVEA_ATTENTION_ROWS_INL_H_
#else
#define FOVEA_ATTENTION_ROWS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/attention/problem.h"
#include "kernels/attention/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

// A stretch of one row in scratch: s[j − origin] is key j's. Keys begin ≤ j < end are permitted by
// the row's range; [from, to) is the stretch in whole vectors around what its group sees.
struct Stretch {
  int64_t b, h, i;
  int64_t origin;
  int64_t begin, end;
  int64_t from, to;
  int64_t size() const { return to - from; }
};

inline RandomKey RowKey(const AttentionProblem& p, Purpose purpose, int64_t b, int64_t h,
                        int64_t i) {
  return random_key(p.seed, purpose, p.first.b + b, p.first.h + h, p.first.i + i);
}

inline float KeptFactor(const AttentionProblem& p) { return 1.0f / (1.0f - p.dropout); }
inline uint32_t DropBelow(const AttentionProblem& p) {
  return static_cast<uint32_t>(static_cast<double>(p.dropout) * 4294967296.0);
}

// Whether a stretch holds anything to forbid or add.
inline bool NeedsMask(const AttentionProblem& p, const Stretch& x) {
  return x.from < x.begin || x.end < x.to || p.bias || p.allowed || p.conditions ||
         (p.center && p.renormalise);
}

constexpr float kLowest =
    std::numeric_limits<float>::lowest();  // as a bias it forbids nothing, at any T

// s ← (s + bias/T) where allowed, −inf elsewhere. Temperature and scale are in s already.
HWY_NOINLINE void MaskRow(const AttentionProblem& p, const Stretch& x, float* s) {
  float* at = s - x.origin;
  if (p.bias) {
    const float* bias = p.bias.row(x.b, x.h, x.i);
    const float inverse = 1.0f / p.temperature;
    for (int64_t j = x.begin; j < x.end; ++j) {
      const float add = bias[j * p.bias.c];
      at[j] = add == -kInf ? -kInf : at[j] + std::max(add * inverse, kLowest);
    }
  }
  if (p.center && p.renormalise) {
    const float center = *p.center.row(x.b, x.h, x.i);
    const float factor = -0.5f / (p.sigma * p.sigma);
    for (int64_t j = x.begin; j < x.end; ++j) {
      const float away = static_cast<float>(j) - center;
      at[j] += factor * away * away;
    }
  }
  if (p.allowed) {
    const uint8_t* allowed = p.allowed.row(x.b, x.h, x.i);
    for (int64_t j = x.begin; j < x.end; ++j) {
      if (!allowed[j * p.allowed.c]) at[j] = -kInf;
    }
  }
  const RowKeys keys{p.first.b + x.b, p.first.h + x.h, p.first.i + x.i, p.first.j + x.begin,
                     p.first.j + x.end};
  for (int64_t c = 0; c < p.n_conditions; ++c) {
    forbid(p.conditions[c], keys, at + x.begin);
  }
  FillRow(at, x.from, std::min(x.begin, x.to), -kInf);
  FillRow(at, std::max(x.end, x.from), x.to, -kInf);
}

HWY_INLINE float RowMax(const float* s, int64_t n) {
  const F d;
  Vec m0 = hn::Set(d, -kInf), m1 = m0;
  int64_t j = 0;
  for (; j + 2 * kLanes <= n; j += 2 * kLanes) {
    m0 = hn::Max(m0, hn::LoadU(d, s + j));
    m1 = hn::Max(m1, hn::LoadU(d, s + j + kLanes));
  }
  if (j < n) m0 = hn::Max(m0, hn::LoadU(d, s + j));
  return MaxOf(hn::Max(m0, m1));
}

// The same, but NaN where the row holds a NaN or +inf.
HWY_INLINE float MaxOrNan(const float* s, int64_t n) {
  const F d;
  const Vec inf = hn::Set(d, kInf);
  Vec most = hn::Set(d, -kInf);
  auto below = hn::Lt(most, inf);
  for (int64_t j = 0; j < n; j += kLanes) {
    const Vec v = hn::LoadU(d, s + j);
    most = hn::Max(most, v);
    below = hn::And(below, hn::Lt(v, inf));
  }
  return hn::AllTrue(d, below) ? MaxOf(most) : kNan;
}

// s ← e^{s−m}; returns the sum.
HWY_INLINE float ExpRow(float* s, int64_t n, float m) {
  const F d;
  const Vec most = hn::Set(d, m);
  Vec sum0 = hn::Zero(d), sum1 = sum0;
  int64_t j = 0;
  for (; j + 2 * kLanes <= n; j += 2 * kLanes) {
    const Vec e0 = FastExpTo88(F(), hn::Sub(hn::LoadU(d, s + j), most));
    const Vec e1 = FastExpTo88(F(), hn::Sub(hn::LoadU(d, s + j + kLanes), most));
    hn::StoreU(e0, d, s + j);
    hn::StoreU(e1, d, s + j + kLanes);
    sum0 = hn::Add(sum0, e0);
    sum1 = hn::Add(sum1, e1);
  }
  if (j < n) {
    const Vec e = FastExpTo88(F(), hn::Sub(hn::LoadU(d, s + j), most));
    hn::StoreU(e, d, s + j);
    sum0 = hn::Add(sum0, e);
  }
  return SumOf(hn::Add(sum0, sum1));
}

HWY_INLINE float RowSum(const float* x, int64_t n) {
  const F d;
  Vec sum = hn::Zero(d);
  for (int64_t j = 0; j < n; j += kLanes) sum = hn::Add(sum, hn::LoadU(d, x + j));
  return SumOf(sum);
}

// A log-sum-exp m + log l is one float: of size 256 it has lost 2⁻¹⁶ of log l, of 10⁸ all of it. So
// has a threshold, m + τ.
inline bool LargeStat(float stat) { return std::fabs(stat) >= 256.0f && std::fabs(stat) < kInf; }
// Whether it had better be computed again, which takes a whole row.
inline bool FindsAgain(const AttentionProblem& p, float stat) {
  return p.whole_rows && LargeStat(stat);
}

// The score of a head's sink; −inf: none.
inline float SinkOf(const AttentionProblem& p, int64_t h) {
  return p.sink ? p.sink[h] / p.temperature : -kInf;
}

// s ← s − max, the sink among them; returns log Σ e^s.
HWY_NOINLINE float Recenter(float* s, int64_t n, float& sink) {
  const F d;
  const float largest = std::max(RowMax(s, n), sink);
  const Vec most = hn::Set(d, largest);
  Vec sum = hn::Zero(d);
  for (int64_t j = 0; j < n; j += kLanes) {
    const Vec v = hn::Sub(hn::LoadU(d, s + j), most);
    hn::StoreU(v, d, s + j);
    sum = hn::Add(sum, FastExpTo88(F(), v));
  }
  sink -= largest;
  return std::log(SumOf(sum) + std::exp(sink));
}

// No weights sum to 1 where a score is NaN or +inf: the row's statistic is NaN then, and so is
// every weight that the row sees, and nothing else. Sigmoid and none weigh each score by itself.
inline bool WeighsRows(Weigh w) { return w != Weigh::sigmoid && w != Weigh::none; }
inline bool Undefined(Weigh w, float stat) { return WeighsRows(w) && std::isnan(stat); }

HWY_NOINLINE void SpreadNan(const float* s, int64_t n, float* to) {
  for (int64_t j = 0; j < n; ++j) to[j] = s[j] == -kInf ? 0.0f : kNan;
}

// What WeighRow makes of a row whose sum is NaN, where its scores are gone.
HWY_NOINLINE void NanRow(const AttentionProblem& p, const Stretch& x, float* s) {
  FillRow(s, x.from - x.origin, x.to - x.origin, 0.0f);
  if (NeedsMask(p, x)) MaskRow(p, x, s);
  SpreadNan(s + (x.from - x.origin), x.size(), s + (x.from - x.origin));
}

HWY_INLINE void ScaleRow(float* x, int64_t n, float factor) {
  const F d;
  for (int64_t j = 0; j < n; j += kLanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, x + j), hn::Set(d, factor)), d, x + j);
  }
}

// to[d] ← factor·from[d]; a factor of 0 gives 0 whatever is there.
HWY_INLINE void WriteRow(const float* from, int64_t n, float factor, float* to, int64_t stride) {
  const F d;
  int64_t j = 0;
  if (stride == 1 && factor != 0.0f) {
    for (; j + kLanes <= n; j += kLanes) {
      hn::StoreU(hn::Mul(hn::LoadU(d, from + j), hn::Set(d, factor)), d, to + j);
    }
  }
  for (; j < n; ++j) to[j * stride] = factor == 0.0f ? 0.0f : from[j] * factor;
}

// What multiplies a weight after the weighting: the predicted window's bell, and dropout.
inline bool HasFactor(const AttentionProblem& p) {
  return (p.center && !p.renormalise) || p.dropout > 0.0f;
}

HWY_NOINLINE void FactorRow(const AttentionProblem& p, const Stretch& x, float* w) {
  const F d;
  float* at = w - x.origin;
  if (p.center && !p.renormalise) {
    const float center = *p.center.row(x.b, x.h, x.i);
    const Vec factor = hn::Set(d, -0.5f / (p.sigma * p.sigma));
    for (int64_t j = x.from; j < x.to; j += kLanes) {
      const Vec away =
          hn::Sub(hn::ConvertTo(d, hn::Iota(I(), static_cast<int32_t>(j))), hn::Set(d, center));
      const Vec bell = FastExpTo88(F(), hn::Mul(hn::Mul(away, away), factor));
      hn::StoreU(hn::Mul(hn::LoadU(d, at + j), bell), d, at + j);
    }
  }
  if (p.dropout > 0.0f) {
    const RandomKey key = RowKey(p, Purpose::weight_dropout, x.b, x.h, x.i);
    const uint32_t below = DropBelow(p);
    const float kept = KeptFactor(p);
    for (int64_t j = x.begin; j < x.end; ++j) {
      at[j] = bits32(key, static_cast<uint64_t>(p.first.j + j)) >= below ? at[j] * kept : 0.0f;
    }
  }
}

HWY_NOINLINE void AddGumbel(const AttentionProblem& p, const Stretch& x, float* s) {
  const F d;
  const RandomKey key = RowKey(p, Purpose::gumbel, x.b, x.h, x.i);
  float* at = s - x.origin;
  for (int64_t j = x.from; j < x.to; j += kLanes) {
    hn::StoreU(hn::Add(hn::LoadU(d, at + j), Gumbel(key, p.first.j + j)), d, at + j);
  }
}

// The first of the largest; replaces `best` only by something larger. NaN once there is none.
HWY_NOINLINE void UpdateBest(const float* s, const Stretch& x, float& best, int32_t& chosen) {
  const float most = MaxOrNan(s + (x.from - x.origin), x.size());
  if (std::isnan(most)) best = most;
  if (!(most > best)) return;
  const float* at = s - x.origin;
  for (int64_t j = x.begin; j < x.end; ++j) {
    if (at[j] == most) {
      best = most;
      chosen = static_cast<int32_t>(j);
      return;
    }
  }
}

// ---- sparse weightings: the threshold τ of a whole row
// -------------------------------------------- sparsemax: Σ max(s − τ, 0) = 1.   entmax 1.5: Σ
// max(s/2 − τ, 0)² = 1. With z = s − max (or half that), τ lies in [−1, 0]. f is convex and
// decreasing where it is positive, so Newton from the left end climbs to the root without
// overshooting.

HWY_NOINLINE float SparseThreshold(const float* s, int64_t n, float half, bool square) {
  const F d;
  const float most = MaxOrNan(s, n);
  if (most == -kInf || std::isnan(most)) return most;
  const Vec shift = hn::Set(d, most), scale = hn::Set(d, half);
  float tau = -1.0f;
  for (int iteration = 0; iteration < 64; ++iteration) {
    Vec sum = hn::Zero(d), slope = hn::Zero(d);
    for (int64_t j = 0; j < n; j += kLanes) {
      const Vec z = hn::Mul(hn::Sub(hn::LoadU(d, s + j), shift), scale);
      const Vec above = hn::Max(hn::Sub(z, hn::Set(d, tau)), hn::Zero(d));
      if (square) {
        sum = hn::MulAdd(above, above, sum);
        slope = hn::Add(slope, hn::Add(above, above));
      } else {
        sum = hn::Add(sum, above);
        slope = hn::Add(slope, hn::IfThenElseZero(hn::Gt(above, hn::Zero(d)), hn::Set(d, 1.0f)));
      }
    }
    const float next = tau + (SumOf(sum) - 1.0f) / SumOf(slope);
    if (!(next > tau)) break;
    tau = next;
  }
  return tau + most * half;
}

HWY_INLINE float SparseThresholdOf(Weigh weigh, const float* s, int64_t n) {
  const bool square = weigh == Weigh::entmax15;
  return SparseThreshold(s, n, square ? 0.5f : 1.0f, square);
}

// ---- weights from scores and a row's statistic
// ----------------------------------------------------- Not for argmax and sample (their weights
// are one-hot) nor for `formula` (whole rows).

HWY_INLINE Vec WeightOf(Weigh weigh, Vec s, Vec stat) {
  const F d;
  const Vec zero = hn::Zero(d), one = hn::Set(d, 1.0f);
  const auto forbidden = hn::Eq(s, hn::Set(d, -kInf));
  switch (weigh) {
    case Weigh::sparsemax:
      return hn::Max(hn::Sub(s, stat), zero);
    case Weigh::entmax15: {
      const Vec root = hn::Max(hn::MulSub(s, hn::Set(d, 0.5f), stat), zero);
      return hn::Mul(root, root);
    }
    case Weigh::sigmoid: {
      const Vec e = FastExpTo88(F(), hn::Neg(hn::Abs(s)));  // σ(s) = 1/(1+e) or e/(1+e)
      const Vec above = hn::IfThenElse(hn::Ge(s, zero), one, e);
      return hn::IfThenZeroElse(forbidden, hn::Div(above, hn::Add(one, e)));
    }
    case Weigh::none:
      return hn::IfThenZeroElse(forbidden, s);
    default:
      return FastExpTo88(F(), hn::Sub(s, stat));
  }
}

// Who has the whole row of a large statistic takes its scores relative to their maximum, and the
// statistic of those.
HWY_INLINE float AsPrecise(const AttentionProblem& p, float* s, int64_t n, float stat,
                           float& sink) {
  const Weigh weigh = p.weigh;
  if (!FindsAgain(p, stat) || weigh == Weigh::sigmoid || weigh == Weigh::none) return stat;
  const float log_sum = Recenter(s, n, sink);
  const bool sparse = weigh == Weigh::sparsemax || weigh == Weigh::entmax15;
  return sparse ? SparseThresholdOf(weigh, s, n) : log_sum;
}

HWY_NOINLINE void WeighRow(const AttentionProblem& p, float* s, int64_t n, float stat,
                           float sink = -kInf) {
  const F d;
  const Weigh weigh = p.weigh;
  if (Undefined(weigh, stat)) return SpreadNan(s, n, s);
  stat = AsPrecise(p, s, n, stat, sink);
  const Vec v = hn::Set(d, stat == -kInf ? 0.0f : stat);
  for (int64_t j = 0; j < n; j += kLanes)
    hn::StoreU(WeightOf(weigh, hn::LoadU(d, s + j), v), d, s + j);
}

// What is among the scores of a row: keys that are hidden (−∞), and NaN or +∞.
struct RowLook {
  bool hidden, undefined;
};
HWY_INLINE RowLook LookOver(const float* s, int64_t n) {
  const F d;
  const Vec low = hn::Set(d, -kInf), high = hn::Set(d, kInf);
  const auto look = [&](Vec x, auto& hidden, auto& defined) HWY_ATTR {
    hidden = hn::Or(hidden, hn::Eq(x, low));
    defined = hn::And(defined, hn::Lt(x, high));
  };
  auto hidden = hn::Lt(high, low), defined = hn::Lt(low, high);
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) look(hn::LoadU(d, s + j), hidden, defined);
  if (j < n) {
    const auto part = hn::FirstN(d, static_cast<size_t>(n - j));
    look(hn::IfThenElse(part, hn::LoadU(d, s + j), hn::Zero(d)), hidden, defined);
  }
  return {!hn::AllFalse(d, hidden), !hn::AllTrue(d, defined)};
}

// `formula`: calls with the permitted scores, gathered where not all are, and spreads the weights.
// The row's statistic: NaN where there are none, −inf where no score is permitted, else 0.
HWY_NOINLINE float FormulaRow(const AttentionProblem& p, const Stretch& x, float* s, float* spare) {
  float* at = s - x.origin;
  const RowFormula& f = p.formula;
  const RowLook look = LookOver(at + x.from, x.size());
  if (f.normalised && look.undefined) {
    SpreadNan(at + x.from, x.size(), at + x.from);
    return kNan;
  }
  if (!look.hidden && x.size() > 0) {
    f.forward(f.self, x.size(), at + x.from, at + x.from);
    return 0.0f;
  }
  int64_t n = 0;
  for (int64_t j = x.from; j < x.to; ++j) {
    if (at[j] != -kInf) spare[n++] = at[j];
  }
  const bool empty = n == 0;
  if (!empty) f.forward(f.self, n, spare, spare);
  n = 0;
  for (int64_t j = x.from; j < x.to; ++j) at[j] = at[j] != -kInf ? spare[n++] : 0.0f;
  return empty ? -kInf : 0.0f;
}

struct RowScores {
  float *s, *spare;
};

// A row's scores become its weights once more, from the statistic that the forward pass kept.
HWY_INLINE void WeighAgain(const AttentionProblem& p, const Stretch& x, float stat, RowScores row) {
  if (p.weigh == Weigh::formula) {
    FormulaRow(p, x, row.s, row.spare);
  } else {
    WeighRow(p, row.s + (x.from - x.origin), x.size(), stat, SinkOf(p, x.h));
  }
  if (HasFactor(p) && !Undefined(p.weigh, stat)) FactorRow(p, x, row.s);
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_ATTENTION_ROWS_INL_H_
