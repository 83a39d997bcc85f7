#include "models/translated.h"

#include <algorithm>

namespace fovea::models {

Tensor each_repeated(int64_t B, int64_t K) {
  std::vector<int64_t> rows;
  for (int64_t b = 0; b < B; ++b) rows.insert(rows.end(), static_cast<size_t>(K), b);
  return Tensor::from_ids(rows, {B * K});
}

std::vector<std::vector<Decoded>> search_translations(Generator& generator,
                                                      const Tensor& source_lengths,
                                                      const DecodeConfig& c, int64_t most) {
  const std::vector<int64_t> lengths = source_lengths.to_ids();
  Sequences sequences{.ends = c.special.ends, .never = c.special.never};
  for (const int64_t S : lengths) {
    sequences.first.push_back(c.special.begin);
    sequences.limits.push_back(std::min(2 * S + 10, most));
  }
  auto all = search(generator, sequences, c);
  for (size_t b = 0; b < all.size(); ++b) {
    for (Decoded& d : all[b]) {
      for (std::vector<float>& row : d.weights) row.resize(static_cast<size_t>(lengths[b]));
    }
  }
  return all;
}

}  // namespace fovea::models
