#pragma once

#include "kernels/attention/problem.h"

namespace fovea::kernels {

// Why devices other than the CPU do not compute a call; null where they do. `g` is null for the
// forward pass.
inline const char* refused_by_devices(const AttentionProblem& p, const AttentionGradients* g) {
  if (p.family == Family::given) return "given scores have no kernel yet";
  if (p.weigh != Weigh::softmax) return "the weighting is not softmax: only that has kernels yet";
  if (p.q16 || p.k16 || p.v16) return "16 bits have no kernel yet";
  if (p.noisy || !p.whole_rows) return "a part of the keys has no kernel yet";
  if (p.center) return "a predicted window has no kernel yet";
  if (p.conditions) return "a condition beside one matrix has no kernel yet";
  if (p.D < 1 || p.Lk < 1 || p.Dv < 1) return "a width, or the number of keys, is 0";
  if (p.D > 16384) return "the width of queries and keys is over 16384";
  if (p.Lk > (1 << 22) || p.Lq > (1 << 22)) return "over 4194304 queries or keys";
  if (p.Lk * ((p.D + 63) / 64 * 64) >= int64_t{1} << 31) {
    return "over 2147483648 numbers in the keys of a head";
  }
  if (p.B * p.H > (1 << 20)) return "over 1048576 heads in all";
  if (g == nullptr) return nullptr;
  if (g->d_weights) return "gradients of weights have no kernel yet";
  if (g->d_log_prob || g->d_entropy) return "gradients of draws and entropies have no kernel yet";
  if (!(g->d_context || g->d_context16) || !(g->context || g->context16))
    return "the gradient of the context, or the context, is absent";
  return nullptr;
}

}  // namespace fovea::kernels
