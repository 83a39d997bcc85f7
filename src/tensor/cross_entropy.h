#pragma once

#include "fovea/ops.h"
#include "kernels/cross_entropy.h"
#include "tensor/impl.h"

namespace fovea {

// A loss as kernels are told of it.
struct LossOf {
  CrossEntropy how;
  float factor = 1.0f;  // of what rows lose
  bool reduced = true;

  kernels::Targets targets(const Tensor& ids) const {
    return {raw_ids(ids), how.ignore_index, how.label_smoothing};
  }
  kernels::LossGradient gradient(const float* d_loss) const {
    return {d_loss, reduced ? 0 : 1, factor};
  }
};

// Of logits of this shape. Throws where targets do not fit them, or are no classes.
LossOf loss_of(const Shape& logits, const Tensor& targets, const CrossEntropy& how);

}  // namespace fovea
