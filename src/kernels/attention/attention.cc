#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention.cc"
#include <hwy/foreach_target.h>  // must precede highway.h
#include "kernels/scalar_size.h"

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "core/isa.h"
#include "kernels/attention/backward-inl.h"
#include "kernels/attention/forward-inl.h"
#include "kernels/attention/inspect-inl.h"
#include "kernels/attention/linear-inl.h"
#include "kernels/attention/problem.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace {

// Queries and keys of bf16 alone are multiplied as they are, where this instruction set can.
AttentionProblem WithUnit(AttentionProblem p) {
  const auto narrow = [](const HalfView& x) { return x && x.type == Number::bf16; };
  p.matrix_unit = FOVEA_DOTS && narrow(p.q16) && narrow(p.k16) && uses_matrix_unit();
  return p;
}

}  // namespace

void AttentionForward(const AttentionProblem& p, const AttentionResult& out) {
  Forward(WithUnit(p), out);
}
void AttentionBackward(const AttentionProblem& p, const AttentionGradients& g) {
  Backward(WithUnit(p), g);
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::kernels {

HWY_EXPORT(AttentionForward);
HWY_EXPORT(AttentionBackward);
HWY_EXPORT(Weights);
HWY_EXPORT(Entropy);
HWY_EXPORT(LogProb);
HWY_EXPORT(EveryFinite);
HWY_EXPORT(LinearForward);
HWY_EXPORT(LinearBackward);

void attention_forward(const AttentionProblem& p, const AttentionResult& out) {
  HWY_DYNAMIC_DISPATCH(AttentionForward)(p, out);
}

void attention_backward(const AttentionProblem& p, const AttentionGradients& g) {
  HWY_DYNAMIC_DISPATCH(AttentionBackward)(p, g);
}

void attention_weights(const AttentionProblem& p, const AttentionResult& done,
                       const WeightsSelection& pick, const View<float>& weights) {
  HWY_DYNAMIC_DISPATCH(Weights)(p, done, pick, weights);
}

void attention_entropy(const AttentionProblem& p, const float* stat, float* entropy) {
  HWY_DYNAMIC_DISPATCH(Entropy)(p, stat, entropy);
}

void attention_log_prob(const AttentionProblem& p, const float* stat, const int32_t* chosen,
                        float* log_prob) {
  HWY_DYNAMIC_DISPATCH(LogProb)(p, stat, chosen, log_prob);
}

void top_of_rows(const TopRows& x, const float* weights, float* top, int64_t* keys) {
  parallel_for(x.rows, [&](int64_t row) {
    const float* w = weights + row * x.n;
    const auto size = [w](int64_t j) {  // NaN first
      return std::isnan(w[j]) ? std::numeric_limits<float>::infinity() : w[j];
    };
    std::vector<int64_t> order(static_cast<size_t>(x.n));
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + x.k, order.end(), [&](int64_t a, int64_t b) {
      return size(a) != size(b) ? size(a) > size(b) : a < b;
    });
    for (int64_t i = 0; i < x.k; ++i) {
      keys[row * x.k + i] = order[i];
      top[row * x.k + i] = w[order[i]];
    }
  });
}

void forbid(const Condition& c, const RowKeys& x, float* s) {
  if (c.forbid) return c.forbid(c.self, x, s);
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  if (c.allowed) {
    const uint8_t* allowed = c.allowed.row(x.b, x.h, x.i);
    for (int64_t j = x.from; j < x.to; ++j) {
      if (!allowed[j * c.allowed.c]) s[j - x.from] = kNever;
    }
    return;
  }
  const int64_t own = *c.of_query.row(x.b, x.h, x.i);
  for (int64_t j = x.from; j < x.to; ++j) {
    if (*c.of_key.row(x.b, x.h, j) != own) s[j - x.from] = kNever;
  }
}

bool all_finite(const View<const float>& x, int64_t B, int64_t H, int64_t R, int64_t C) {
  return HWY_DYNAMIC_DISPATCH(EveryFinite)(x, B, H, R, C);
}

void linear_forward(const AttentionProblem& p, const AttentionResult& out) {
  HWY_DYNAMIC_DISPATCH(LinearForward)(p, out);
}

void linear_backward(const AttentionProblem& p, const AttentionGradients& g) {
  HWY_DYNAMIC_DISPATCH(LinearBackward)(p, g);
}

}  // namespace fovea::kernels
#endif
