#pragma once

#include <cstdint>
#include <vector>

#include "fovea/tensor.h"

namespace fovea {

// The sum of tensors that terms [first, first + 2^level) gave, or those of them that there are.
struct PartialSum {
  int64_t first = 0;
  int level = 0;
  Tensors values;  // a name that no term gave is absent
};

// Σ x_t over terms t = 0, 1, …, by a binary tree: a node is the sum of its left half and its right
// half, a term is a leaf. The tree depends on the number of terms alone. So partial sums may come
// from anywhere, of one term or of an aligned run of them, and no bit of the total changes. At most
// bit_width(terms − 1) sums wait at once.
class TreeSum {
 public:
  void add(PartialSum next);        // in the order of terms; changes what it is given
  std::vector<PartialSum> parts();  // that wait for their other halves; nothing is left
  Tensors total();                  // of everything that was added; nothing is left

 private:
  void merge_last();
  std::vector<PartialSum> waiting_;
};

// How many of `terms` a rank of `ranks` begins after: shares are runs, as equal as can be.
inline int64_t first_of_share(int64_t terms, int64_t rank, int64_t ranks) {
  return terms * rank / ranks;
}

}  // namespace fovea
