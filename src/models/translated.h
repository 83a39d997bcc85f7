#pragma once

#include <cstdint>
#include <vector>

#include "fovea/search.h"
#include "fovea/tensor.h"

// What the decoders of translation share.
namespace fovea::models {

// 0 … 0 1 … 1 …: K rows for each of B sentences, next to each other; i64 [B·K].
Tensor each_repeated(int64_t B, int64_t K);

// From the begin token to the end token, at most 2·S + 10 tokens, S the sentence's own, nor more
// than `most`; what was attended to, cut to its sentence.
std::vector<std::vector<Decoded>> search_translations(Generator&, const Tensor& source_lengths,
                                                      const DecodeConfig&,
                                                      int64_t most = INT64_MAX);

}  // namespace fovea::models
