#pragma once

#include <memory>

#include "fovea/api.h"
#include "fovea/attention.h"
#include "fovea/tensor.h"

namespace fovea {

// What one query found in a Memory. Everything is as in Attended, without heads and query rows.
struct FOVEA_API MemoryStep {
  Tensor context;  // [B,Dv]

  Tensor weights() const;   // [B,Lk]; differentiable
  Tensor entropy() const;   // [B], of the probabilities; differentiable
  Tensor chosen() const;    // i64 [B], hard weightings; −1: none
  Tensor log_prob() const;  // [B], hard weightings; differentiable
  // Which way it went: by a step whose gradients of keys, values and parameters are taken once for
  // all steps, or by a call of attend(), `attended`.
  bool deferred() const;

  Tensor soft;        // the weights where a step kept them
  Attended attended;  // otherwise the call that answers
};

// Keys and values that many queries are compared with, one step after another, as a recurrent
// decoder does:
//
//   Memory memory(keys, values, scores::additive(w_q, w_k, u), lengths);
//   MemoryStep step = memory(state);
//
// Keys are lowered once, as the score reads them. Where that is a dot or an additive form, without
// a cap or a bias, and the weights are a softmax over the lengths alone, a step's backward gives
// the query's gradient, and the gradients of keys, values and the score's parameters are taken once
// for all steps. Everything else is attend(), step by step: any score, mask and weighting works,
// with the same results.
class FOVEA_API Memory {
 public:
  // keys [B,Lk,Dk], values [B,Lk,Dv], any strides; lengths i64 [B], how many keys of each row may
  // be seen (undefined: all). A row of length 0 gives context 0, weights 0 and zero gradients.
  Memory(const Tensor& keys, const Tensor& values, const Score&, const Tensor& lengths = {});

  // query [B,Dq]. Masks see one query, i = 0.
  MemoryStep operator()(const Tensor& query, const Mask& = {}, const Weighting& = {});

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace fovea
