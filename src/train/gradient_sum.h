#pragma once

#include <cstdint>
#include <vector>

#include "fovea/tensor.h"

namespace fovea::train {

// The sum of tensors that batches [first, first + 2^level) gave, or those of them that there are.
struct PartialSum {
  int64_t first = 0;
  int level = 0;
  Tensors values;  // a name that no batch gave is absent
};

// Σ x_b over a step's batches b = 0, 1, …, by a binary tree: a node is the sum of its left half and
// its right half, a batch is a leaf. The tree depends on the number of batches alone. So partial
// sums may come from anywhere, of one batch or of an aligned run of them, and no bit of the total
// changes. At most bit_width(batches − 1) sums wait at once.
class TreeSum {
 public:
  void add(PartialSum next);        // in the order of batches; changes what it is given
  std::vector<PartialSum> parts();  // that wait for their other halves; nothing is left
  Tensors total();                  // of everything that was added; nothing is left

 private:
  void merge_last();
  std::vector<PartialSum> waiting_;
};

// The gradients of tensors, by name, which are then without.
Tensors taken_gradients(const Tensors& of);

// How many of `batches` a rank of `ranks` begins after: shares are runs, as equal as can be.
inline int64_t first_of_share(int64_t batches, int64_t rank, int64_t ranks) {
  return batches * rank / ranks;
}

}  // namespace fovea::train
