#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention.cc"
#include <hwy/foreach_target.h>  // must precede highway.h
#include "kernels/scalar_size.h"

#include <hwy/highway.h>

#include "kernels/attention/backward-inl.h"
#include "kernels/attention/forward-inl.h"
#include "kernels/attention/inspect-inl.h"
#include "kernels/attention/linear-inl.h"
#include "kernels/attention/problem.h"

#if HWY_ONCE
namespace fovea::kernels {

HWY_EXPORT(Forward);
HWY_EXPORT(Backward);
HWY_EXPORT(Weights);
HWY_EXPORT(Entropy);
HWY_EXPORT(LogProb);
HWY_EXPORT(EveryFinite);
HWY_EXPORT(LinearForward);
HWY_EXPORT(LinearBackward);

void attention_forward(const AttentionProblem& p, const AttentionResult& out) {
  HWY_DYNAMIC_DISPATCH(Forward)(p, out);
}

void attention_backward(const AttentionProblem& p, const AttentionGradients& g) {
  HWY_DYNAMIC_DISPATCH(Backward)(p, g);
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
