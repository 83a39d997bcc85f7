#pragma once

#include "attention/def.h"
#include "fovea/layers.h"

// What self-attention keeps from step to step.
namespace fovea::nn {

// k and v [B,Hk,L,d] after those that are there, as they are kept; off the tape. Grows by doubling.
void append(KeyValues&, const Tensor& k, const Tensor& v);
// Rows `ids` of the batch, in that order.
KeyValues select_rows(const KeyValues&, const Tensor& ids);

// ---- Linear heads: context_i = φ(q_i)·Σ_j φ(k_j)⊗[v_j; 1], its last number dividing the others
Tensor with_ones(const Tensor& v);              // [..,d] → [..,d+1]
Tensor divided_by_last(const Tensor& context);  // [..,d+1] → [..,d]
// By sums [..,1] of weights; where there are none, as of a row that sees no key, 0.
Tensor divided(const Tensor& context, const Tensor& sums);

struct LinearRows {
  Tensor q, k, v;  // [B,H,L,d], [B,Hk,L,d]; the new ones
};
// The rows see those before them and themselves; their keys and values join the sum
// [B,Hk,d,d+1], undefined before the first.
Tensor linear_steps(Tensor& sum, const ScoreDef&, const LinearRows&);

}  // namespace fovea::nn
