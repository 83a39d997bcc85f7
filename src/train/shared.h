#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "fovea/tensor.h"

namespace fovea::train {

// Batches that all ranks of a team compute together: each does some of a batch's terms, a run of
// them as first_of_share() deals them, and gradients add up in a tree over all terms.
struct SharedBatches {
  int64_t terms = 0;
  // Of the pass just made, by the weight's TensorImpl: what this rank's terms gave it, a sum for
  // each part of shape_of_parts(). A weight without any has its whole gradient, on every rank.
  std::map<const void*, std::vector<Tensor>> sums;
};

}  // namespace fovea::train
