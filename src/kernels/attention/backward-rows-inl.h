// The gradient of one row of weights with respect to its scores.
#if defined(FOVEA_ATTENTION_BACKWARD_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_ATTENTION_BACKWARD_ROWS_INL_H_
#undef FOVEA_ATTENTION_BACKWARD_ROWS_INL_H_
#else
#define FOVEA_ATTENTION_BACKWARD_ROWS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/attention/blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

// ds_j = p_j·(dw_j + beta + gamma·log p_j) + [j = chosen]·pick, for weightings by softmax.
//   context:       beta −= Σ p·dw           log-sum-exp: beta += d
//   log p(chosen): beta −= d, pick += d     entropy H:   beta −= d·H, gamma −= d
struct RowTerms {
  float stat = 0.0f;
  float beta = 0.0f, gamma = 0.0f, pick = 0.0f;
  int64_t chosen = -1;
  bool find_mean = false;       // Σ p·dw must be summed over the row
  float factor = 1.0f;          // of ds
  const float* kept = nullptr;  // p, where the forward pass kept it: [key]
};

// Σ p·dw, p from s: needed before the gradient where the context cannot tell it.
HWY_NOINLINE float MeanGradient(const float* s, const float* dw, int64_t n, float stat) {
  const F d;
  const Vec base = hn::Set(d, stat == -kInf ? 0.0f : stat);
  Vec sum = hn::Zero(d);
  for (int64_t j = 0; j < n; j += kLanes) {
    const Vec p = FastExpTo88(F(), hn::Sub(hn::LoadU(d, s + j), base));
    const Vec term = hn::Mul(p, hn::LoadU(d, dw + j));
    sum = hn::Add(sum, hn::IfThenZeroElse(hn::Eq(p, hn::Zero(d)), term));
  }
  return SumOf(sum);
}

// The same from p.
HWY_INLINE void KeptGradRow(const float* HWY_RESTRICT kept, float* HWY_RESTRICT s,
                            float* HWY_RESTRICT dw, int64_t n, const RowTerms& t) {
  const F d;
  const Vec beta = hn::Set(d, t.beta), factor = hn::Set(d, t.factor), zero = hn::Zero(d);
  for (int64_t j = 0; j < n; j += kLanes) {
    const Vec p = hn::LoadU(d, kept + j);
    const Vec ds = hn::Mul(hn::Mul(p, factor), hn::Add(hn::LoadU(d, dw + j), beta));
    hn::StoreU(hn::IfThenZeroElse(hn::Eq(p, zero), ds), d, dw + j);
    hn::StoreU(p, d, s + j);
  }
}

// s ← p, dw ← ds.
HWY_INLINE void SoftmaxGradRow(float* HWY_RESTRICT s, float* HWY_RESTRICT dw, int64_t n,
                               const RowTerms& t) {
  const F d;
  const Vec base = hn::Set(d, t.stat == -kInf ? 0.0f : t.stat);
  const Vec beta = hn::Set(d, t.beta), gamma = hn::Set(d, t.gamma), zero = hn::Zero(d);
  const Vec factor = hn::Set(d, t.factor);
  if (t.gamma == 0.0f) {
    for (int64_t j = 0; j < n; j += kLanes) {
      const Vec p = FastExpTo88(F(), hn::Sub(hn::LoadU(d, s + j), base));
      const Vec ds = hn::Mul(hn::Mul(p, factor), hn::Add(hn::LoadU(d, dw + j), beta));
      hn::StoreU(hn::IfThenZeroElse(hn::Eq(p, zero), ds), d, dw + j);
      hn::StoreU(p, d, s + j);
    }
    return;
  }
  for (int64_t j = 0; j < n; j += kLanes) {
    const Vec log_p = hn::Sub(hn::LoadU(d, s + j), base);
    const Vec p = FastExpTo88(F(), log_p);
    const Vec sum = hn::MulAdd(gamma, log_p, hn::Add(hn::LoadU(d, dw + j), beta));
    const Vec ds = hn::Mul(hn::Mul(p, factor), sum);
    hn::StoreU(hn::IfThenZeroElse(hn::Eq(p, zero), ds), d, dw + j);
    hn::StoreU(p, d, s + j);
  }
}

// sparsemax: ds = [w>0](dw − mean of dw over the support).
// entmax 1.5: with r = √w, ds = r·(dw − Σ r·dw / Σ r).  One formula: r is 1 on sparsemax's support.
HWY_NOINLINE void SparseGradRow(Weigh weigh, float* s, float* dw, int64_t n, float stat) {
  const F d;
  const Vec tau = hn::Set(d, stat == -kInf ? 0.0f : stat), zero = hn::Zero(d);
  Vec above = zero, below = zero;
  for (int64_t j = 0; j < n; j += kLanes) {
    const Vec w = WeightOf(weigh, hn::LoadU(d, s + j), tau);
    const auto out = hn::Eq(w, zero);
    const Vec r =
        hn::IfThenZeroElse(out, weigh == Weigh::sparsemax ? hn::Set(d, 1.0f) : hn::Sqrt(w));
    above = hn::Add(above, hn::IfThenZeroElse(out, hn::Mul(r, hn::LoadU(d, dw + j))));
    below = hn::Add(below, r);
    hn::StoreU(w, d, s + j);
  }
  const float weight = SumOf(below);
  const Vec mean = hn::Set(d, weight == 0.0f ? 0.0f : SumOf(above) / weight);
  for (int64_t j = 0; j < n; j += kLanes) {
    const Vec w = hn::LoadU(d, s + j);
    const Vec r = weigh == Weigh::sparsemax ? hn::Set(d, 1.0f) : hn::Sqrt(w);
    const Vec ds = hn::Mul(r, hn::Sub(hn::LoadU(d, dw + j), mean));
    hn::StoreU(hn::IfThenZeroElse(hn::Eq(w, zero), ds), d, dw + j);
  }
}

// sigmoid: ds = w(1−w)·dw;  none: ds = dw. Where dw is 0, as of a dropped weight, so is ds.
HWY_NOINLINE void ElementGradRow(Weigh weigh, float* s, float* dw, int64_t n) {
  const F d;
  const Vec one = hn::Set(d, 1.0f);
  for (int64_t j = 0; j < n; j += kLanes) {
    const Vec score = hn::LoadU(d, s + j);
    const Vec w = WeightOf(weigh, score, hn::Zero(d));
    const Vec up = hn::LoadU(d, dw + j);
    Vec ds = up;
    if (weigh == Weigh::sigmoid) ds = hn::Mul(hn::Mul(w, hn::Sub(one, w)), up);
    const auto none = hn::Or(hn::Eq(score, hn::Set(d, -kInf)), hn::Eq(up, hn::Zero(d)));
    hn::StoreU(hn::IfThenZeroElse(none, ds), d, dw + j);
    hn::StoreU(w, d, s + j);
  }
}

HWY_NOINLINE void FormulaGradRow(const AttentionProblem& p, const Stretch& x, float* s, float* dw,
                                 float* spare) {
  float* at = s - x.origin;
  float* dw_at = dw - x.origin;
  const RowFormula& f = p.formula;
  if (!LookOver(at + x.from, x.size()).hidden) {
    if (x.size() == 0) return;
    f.forward(f.self, x.size(), at + x.from, spare);
    f.backward(f.self, x.size(), at + x.from, spare, dw_at + x.from, dw_at + x.from);
    std::copy(spare, spare + x.size(), at + x.from);
    return;
  }
  float* scores = spare;
  float* ds = spare + x.size();  // dw at first
  float* weights = spare + 2 * x.size();
  int64_t n = 0;
  for (int64_t j = x.from; j < x.to; ++j) {
    if (at[j] == -kInf) continue;
    scores[n] = at[j];
    ds[n++] = dw_at[j];
  }
  if (n > 0) {
    f.forward(f.self, n, scores, weights);
    f.backward(f.self, n, scores, weights, ds, ds);
  }
  n = 0;
  for (int64_t j = x.from; j < x.to; ++j) {
    const bool seen = at[j] != -kInf;
    dw_at[j] = seen ? ds[n] : 0.0f;
    at[j] = seen ? weights[n++] : 0.0f;
  }
}

// Σ_j x_j·(j − c)/σ²
HWY_INLINE float CenterMoment(const AttentionProblem& p, const Stretch& x, const float* row) {
  const float* at = row - x.origin;
  const float center = *p.center.row(x.b, x.h, x.i);
  float sum = 0.0f;
  for (int64_t j = x.begin; j < x.end; ++j) sum += at[j] * (static_cast<float>(j) - center);
  return sum / (p.sigma * p.sigma);
}

// The same as SpreadNan from weights that were kept: those of hidden keys are 0.
inline void UndefinedRow(const float* kept, int64_t n, float* to) {
  for (int64_t j = 0; j < n; ++j) to[j] = kept[j] == 0.0f ? 0.0f : kNan;
}

// The sink's ds, as above: its dw is 0.
inline float SinkGradient(const RowTerms& t, float sink) {
  if (sink == -kInf) return 0.0f;
  const float log_p = sink - t.stat, p = std::exp(log_p);
  return p == 0.0f ? 0.0f : p * (t.beta + t.gamma * log_p);
}

struct GradRows {
  float *s, *dw, *spare;
};

// Of what a row has but once.
struct RowGrads {
  float center = 0.0f, sink = 0.0f;
};

// s: masked scores → weights as they multiply the values; dw: gradient of those → ds.
HWY_INLINE RowGrads GradRow(const AttentionProblem& p, const Stretch& x, RowTerms t,
                            const GradRows& row) {
  float *s = row.s, *dw = row.dw, *spare = row.spare;
  float* at = s + (x.from - x.origin);
  float* dw_at = dw + (x.from - x.origin);
  const bool factor = HasFactor(p), bell = p.center && !p.renormalise;
  RowGrads grads;
  if (Undefined(p.weigh, t.stat)) {
    if (t.kept) {
      UndefinedRow(t.kept + x.from, x.size(), dw_at);
      UndefinedRow(t.kept + x.from, x.size(), at);
    } else {
      SpreadNan(at, x.size(), dw_at);
      SpreadNan(at, x.size(), at);
    }
    return {kNan, kNan};
  }
  if (factor) FactorRow(p, x, dw);
  if (bell) std::copy(dw_at, dw_at + x.size(), spare + 3 * x.size());
  if (p.weigh == Weigh::gumbel) AddGumbel(p, x, s);
  float sink = SinkOf(p, x.h);
  if (!t.kept) t.stat = AsPrecise(p, at, x.size(), t.stat, sink);
  switch (p.weigh) {
    case Weigh::sparsemax:
    case Weigh::entmax15:
      SparseGradRow(p.weigh, at, dw_at, x.size(), t.stat);
      break;
    case Weigh::sigmoid:
    case Weigh::none:
      ElementGradRow(p.weigh, at, dw_at, x.size());
      break;
    case Weigh::formula:
      FormulaGradRow(p, x, s, dw, spare);
      break;
    default:
      if (t.kept) {
        KeptGradRow(t.kept + x.from, at, dw_at, x.size(), t);
        break;
      }
      if (t.find_mean) t.beta -= MeanGradient(at, dw_at, x.size(), t.stat);
      if (p.sink) grads.sink = SinkGradient(t, sink);
      SoftmaxGradRow(at, dw_at, x.size(), t);
      if (t.chosen >= x.begin && t.chosen < x.end) dw[t.chosen - x.origin] += t.pick * t.factor;
  }
  if (bell) {
    float* product = spare + 3 * x.size();  // w·dw before the bell: Σ w·bell·dw·(j−c)/σ²
    for (int64_t j = 0; j < x.size(); ++j) product[j] = at[j] == 0.0f ? 0.0f : product[j] * at[j];
    Stretch shifted = x;
    shifted.origin = x.from;
    grads.center = CenterMoment(p, shifted, product);
  } else if (p.center) {
    grads.center = CenterMoment(p, x, dw);
  }
  if (factor) FactorRow(p, x, s);
  return grads;
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_ATTENTION_BACKWARD_ROWS_INL_H_
