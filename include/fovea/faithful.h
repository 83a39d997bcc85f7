#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "fovea/api.h"
#include "fovea/explain.h"
#include "fovea/look.h"
#include "fovea/tensor.h"

// Whether attention explains what a model does (Jain & Wallace 2019): does it agree with gradients
// and with leaving inputs out, and do other weights give the same output?
// Letters: T outputs, V what each can be, S inputs.
namespace fovea::explain {

// A model on one input, its looks open to an intervention.
struct Seen {
  Tensor log_p;    // [T,V], of what each output can be
  Tensor weights;  // [T,S], that came of the looks; rows sum to 1
};
using LookAt = std::function<Seen(const models::Intervention&)>;

struct Looking {
  LookAt look;
  Outputs held;     // how likely the outputs are, in any measure, the looks' weights held
  Outputs outputs;  // the same with weights that follow the input
  Tensor x, blank;  // [S,E], [E]: an input that says nothing
  // Which of the outputs belongs to each row of what is seen; empty: the first to the first, ….
  std::vector<int64_t> which;
};

// ---- Adversarial weights -----------------------------------------------------------------------

// The weights farthest from a look's own, by Jensen–Shannon, that change no output by more than
// `allowed` in total variation: argmax_α′ JS(α, α′), softmax of numbers that Adam learns, with the
// excess as a penalty.
struct Adversary {
  double allowed = 0.01;
  int64_t steps = 150;
  float rate = 0.1f;
  float penalty = 50.0f;
  uint64_t seed = 1;
};
// By output; distance 0 where nothing was found.
struct Attacked {
  std::vector<double> distance, change;
};
FOVEA_API Attacked attack(const LookAt&, const Adversary& = {}, const Progress& = {});

// ---- One input, by output ----------------------------------------------------------------------

struct FaithfulConfig {
  Adversary adversary;
  int64_t permutations = 10;
  int64_t fewest = 3;  // inputs that an order is made of
};
struct Faithful {
  double tau_gradient = 0;      // of |x·∂y/∂x|, weights held
  double tau_left_out = 0;      // of how much the output changes without an input
  double permuted = 0;          // total variation of the output: the median over permutations
  double uniform = 0;           // the same with uniform weights
  double uniform_distance = 0;  // Jensen–Shannon, of the weights
  double adversarial = 0;       // the distance found
  double largest = 0;           // weight
  int64_t inputs = 0;
};
FOVEA_API std::vector<Faithful> faithful(const Looking&, const FaithfulConfig& = {},
                                         const Progress& = {});

}  // namespace fovea::explain
