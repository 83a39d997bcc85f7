#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "fovea/runtime.h"
#include "fovea/seq2seq.h"
#include "tests/errors.h"

// Translators of a few hundred weights, and sentences of several lengths.
namespace fovea::models::tests {

// Too little work to share. What threads change, which is nothing, has a test of its own.
struct OneThread {
  OneThread() { set_threads(1); }
};
inline const OneThread kOneThread;

constexpr int64_t kVocabulary = 11, kBegin = 2, kEnd = 3;

struct Sentence {
  std::vector<int64_t> source, target;  // both with their end
};

inline std::vector<Sentence> sentences() {
  return {{{5, 9, 4, 7, 3}, {4, 8, 10, 5, 9, 3}},
          {{10, 4, 4, 8, 6, 9, 3}, {6, 7, 4, 3}},
          {{7, 3}, {9, 10, 10, 4, 3}}};
}

// Past the ends: so many more steps on either side, and what stands there.
struct Padding {
  int64_t more = 0, id = 0;
};

inline Tensor side_by_side(const std::vector<std::vector<int64_t>>& rows, const Padding& padding) {
  size_t longest = 0;
  for (const auto& row : rows) longest = std::max(longest, row.size());
  const size_t B = rows.size(), L = longest + static_cast<size_t>(padding.more);
  std::vector<int64_t> ids(L * B, padding.id);
  for (size_t b = 0; b < B; ++b) {
    for (size_t t = 0; t < rows[b].size(); ++t) ids[t * B + b] = rows[b][t];
  }
  return Tensor::from_ids(ids, {static_cast<int64_t>(L), static_cast<int64_t>(B)});
}

inline Batch batch_of(const std::vector<Sentence>& all, const Padding& padding = {}) {
  std::vector<std::vector<int64_t>> sources, in, out;
  std::vector<int64_t> lengths;
  for (const Sentence& s : all) {
    sources.push_back(s.source);
    lengths.push_back(static_cast<int64_t>(s.source.size()));
    out.push_back(s.target);
    in.push_back({kBegin});
    in.back().insert(in.back().end(), s.target.begin(), s.target.end() - 1);
  }
  return {.source = side_by_side(sources, padding),
          .source_lengths = Tensor::from_ids(lengths, {static_cast<int64_t>(lengths.size())}),
          .target_in = side_by_side(in, padding),
          .target_out = side_by_side(out, {.more = padding.more})};
}

// The ways a decoder is wired.
struct Wiring {
  const char* name;
  Order order;
  bool fed;
};
inline constexpr Wiring kWirings[] = {{"bahdanau", Order::bahdanau, false},
                                      {"luong", Order::luong, false},
                                      {"luong fed", Order::luong, true}};

inline Seq2SeqConfig tiny(const Wiring& wiring = kWirings[0]) {
  return {.source_vocabulary = kVocabulary,
          .target_vocabulary = kVocabulary,
          .embedding = 4,
          .hidden = 6,
          .order = wiring.order,
          .input_feeding = wiring.fed};
}

inline std::string named(const Seq2SeqConfig& c) {
  return std::string(name_of(c.context)) + ", " + name_of(c.order) +
         (c.input_feeding ? " fed, " : ", ") + c.score + ", " + name_of(c.locality) + ", " +
         c.weighting;
}

// Far from where training starts: nothing is 0, and probabilities differ.
inline Seq2Seq model_of(const Seq2SeqConfig& config, uint64_t seed = 1, float spread = 0.5f) {
  Seq2Seq m = seq2seq(config, seed);
  const NoGrad off;
  for (const auto& [name, t] : m.weights.all()) {
    Tensor(t).copy_(Tensor::randn(t.shape(), ++seed * 1000) * spread);
  }
  return m;
}

using test::error_of;

inline bool all_finite(const Tensor& t) {
  const std::vector<float> values = t.to_vector();
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

}  // namespace fovea::models::tests
