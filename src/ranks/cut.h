#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "fovea/ranks.h"

namespace fovea {

// How a sequence is cut and dealt. Its chunks depend on its length alone: 64 of at most 2,048 rows,
// or a multiple of that, their sizes equal but for one row. Chunk p and the p-th from the end are a
// pair, of as many causal scores as any other; a rank holds a run of pairs.
class SequenceCut {
 public:
  SequenceCut(int64_t length, int ranks);

  int64_t length() const { return length_; }
  int64_t chunks() const { return 2 * pairs_; }
  int64_t pairs() const { return pairs_; }
  RowRange chunk(int64_t c) const { return {length_ * c / chunks(), length_ * (c + 1) / chunks()}; }

  int owner_of(int64_t chunk) const;
  int64_t pair_of(int64_t chunk) const { return std::min(chunk, chunks() - 1 - chunk); }
  // Pairs of rank r: first_pair(r) … first_pair(r + 1) − 1.
  int64_t first_pair(int rank) const;
  std::array<RowRange, 2> rows_of(int rank) const;
  int64_t row_count(int rank) const;
  std::vector<int64_t> chunks_of(int rank) const;  // rising
  // Where a chunk begins among the rows of its owner.
  int64_t place_of(int64_t chunk) const;

 private:
  int64_t length_, pairs_;
  int ranks_;
};

}  // namespace fovea
