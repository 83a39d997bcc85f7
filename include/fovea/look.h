#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "fovea/api.h"
#include "fovea/attention.h"
#include "fovea/nn.h"
#include "fovea/ops.h"
#include "fovea/tensor.h"

// How a decoder looks at its source: which score, where, and how weights come of it. The source is
// any memory, keys and values with lengths: the words of a sentence, the regions of an image.
// Letters: B rows, S keys, T queries of a row, C the values' width.
namespace fovea::models {

// ---- What is chosen, and what is learned -------------------------------------------------------

// Which keys a query at step t sees: all, those around t, those around a place it predicts.
enum class Locality : uint8_t { global, local_m, local_p };
FOVEA_API const char* name_of(Locality);
FOVEA_API Locality locality(const std::string& name);

struct LookConfig {
  std::string score = "additive";  // any of list_scores()
  Locality locality = Locality::global;
  int64_t window = 10;                // local: keys on either side
  std::string weighting = "softmax";  // any of list_weightings(); hard ones learn by REINFORCE
  int64_t longest_source = 256;       // keys that a score by position is made for
};
// Throws, naming the field and its range.
FOVEA_API void check(const LookConfig&);
// Whether training draws where to look, and learns it by REINFORCE.
FOVEA_API bool draws(const LookConfig&);

struct LookWidths {
  int64_t query = 0, key = 0;
  int64_t hidden = 0;  // of the layer inside a score or a predicted window
};

// The learned tensors.
struct FOVEA_API LookWeights {
  nn::Linear keys;        // where a score demands equal widths, or undefined
  Tensors score, window;  // the score's own, and a predicted window's
  nn::Linear baseline;    // of the reward, from the query; hard weightings alone
};
// Named prefix + "keys.weight", "score.…", "window.…" and "baseline.…".
FOVEA_API LookWeights look_weights(nn::Weights&, const std::string& prefix, const LookConfig&,
                                   const LookWidths&);

// ---- Reading, differentiating and replacing weights --------------------------------------------

// The weights that a look has come to, before anything is done with them. Stands for the call
// alone; the tensors may be kept.
struct Weighed {
  Tensor weights;                     // [B,T,S], on the tape
  int64_t t = 0;                      // the step of the first of the T queries
  std::function<Tensor()> permitted;  // bool [B,T,S]: the keys that may be seen
};

// Every look of a pass goes through one of these, if there is one: it sees the weights and gives
// those to use, and the contexts come of them, of the permitted keys alone. To read, keep what it
// is given and give it back: the tensor lies on the way to the output, so that gradients() of the
// output with respect to it are those of the look.
using Intervention = std::function<Tensor(const Weighed&)>;

namespace interventions {
// A look's own weights, off the tape: gradients do not go through what they were made of.
FOVEA_API Intervention held();
// 1/n for each of the n permitted keys.
FOVEA_API Intervention uniform();
// A row's own weights in another order among its permitted keys, drawn by (seed, row, step).
FOVEA_API Intervention permuted(uint64_t seed);
// These weights, [B,T,S], for steps 0 … T − 1. Where a search has K rows for each sequence, all K
// take the sequence's.
FOVEA_API Intervention given(const Tensor& weights);
}  // namespace interventions

// ---- One pass ----------------------------------------------------------------------------------

struct LookPass {
  Mode mode =
      Mode::eval;  // train: what is drawn is drawn; eval: hard weightings take the likeliest
  uint64_t seed = 0;
  Tensor expected;  // bool [B]: the rows that take the expectation where others draw, or undefined
  bool keep_weights = false;
  Intervention intervention;
};

struct LookSource {
  Tensor keys;     // [B,S,K], any strides
  Tensor values;   // [B,S,C]
  Tensor lengths;  // i64 [B]
};

// What one look gave; the queries are [B,·] (a step) or [B,T,·] (all of them).
struct Look {
  Tensor context;            // [B,C] or [B,T,C]
  Tensor weights;            // [B,S] or [B,T,S] off the tape, when kept
  Tensor log_prob, entropy;  // [B] or [B,T], when drawn; log_prob 0 where the expectation was taken
};

// Looks at one source through one pass, step by step or for all steps at once.
class FOVEA_API Looker {
 public:
  Looker(const LookConfig&, const LookWeights&, const LookSource&, const LookPass& = {});
  ~Looker();
  Looker(Looker&&) noexcept;
  Looker& operator=(Looker&&) noexcept;

  Look step(const Tensor& query, int64_t t);  // [B,Q]
  Look all(const Tensor& queries);            // [B,T,Q], steps 0 … T − 1

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fovea::models
