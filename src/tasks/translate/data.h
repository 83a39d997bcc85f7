#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fovea/seq2seq.h"
#include "fovea/text.h"
#include "tasks/coder.h"

namespace fovea::tasks::translation {

struct Translator;

// A pair as ids; the source ends as its model expects it, the target has neither begin nor end.
struct EncodedPair {
  std::vector<int64_t> source, target;
};
std::vector<int64_t> encode_source(const Coder&, const std::string&);
std::vector<EncodedPair> encode_pairs(const Coder& source, const Coder& target,
                                      std::span<const text::Pair>);

// Sentences side by side, time-major: i64 [S,B] and [B].
struct Sources {
  Tensor ids, lengths;
};
Sources pad_sources(std::span<const std::vector<int64_t>* const>);
models::Batch make_batch(const Translator&, std::span<const EncodedPair* const>);

}  // namespace fovea::tasks::translation
