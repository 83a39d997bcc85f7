#pragma once

#include <memory>

#include "attention/def.h"
#include "fovea/ops.h"
#include "fovea/seq2seq.h"

// How a decoder looks at its source: which score, where, and how weights come of it.
namespace fovea::models {

struct Widths {
  int64_t query = 0, key = 0, hidden = 0, longest = 0;
};
// The learned tensors a score demands, by its own table: shapes in letters become sizes.
Tensors score_parameters(nn::Weights&, const std::string& name, const ScoreDef&, const Widths&);

const ScoreDef& score_def(const std::string& name);
const WeightingDef& weighting_def(const std::string& name);

// One way of looking through a pass. Hard ones draw while they learn, and take the likeliest after.
struct Looking {
  Mode mode = Mode::eval;
  uint64_t seed = 0;
  float semi_sampling = 0.0f;  // hard: share of sentences that take the expectation
};

// What one look gave; the queries are [B,·] (a step) or [B,T,·] (all of them).
struct Look {
  Tensor context;            // [B,C] or [B,T,C]
  Tensor weights;            // [B,S] or [B,T,S], when asked for
  Tensor log_prob, entropy;  // [B] or [B,T], when drawn; log_prob 0 where the expectation was taken
};

// The source as a decoder sees it.
class Source {
 public:
  Source(const Seq2Seq&, const Tensor& sequence, const Tensor& lengths, const Looking&,
         bool keep_weights);
  ~Source();
  Look step(const Tensor& query, int64_t t);  // [B,H]
  Look all(const Tensor& queries);            // [B,T,H]

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fovea::models
