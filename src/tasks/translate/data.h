#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fovea/seq2seq.h"
#include "fovea/text.h"

namespace fovea::tasks::translation {

// A pair as ids; the source ends with kEnd, the target has neither begin nor end.
struct EncodedPair {
  std::vector<int64_t> source, target;
};
std::vector<int64_t> encode_source(const text::Tokenizer&, const std::string&);
std::vector<EncodedPair> encode_pairs(const text::Tokenizer& source, const text::Tokenizer& target,
                                      std::span<const text::Pair>);

// Sentences side by side, time-major: i64 [S,B] and [B].
struct Sources {
  Tensor ids, lengths;
};
Sources pad_sources(std::span<const std::vector<int64_t>* const>);
models::Batch make_batch(std::span<const EncodedPair* const>);

}  // namespace fovea::tasks::translation
