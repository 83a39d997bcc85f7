#pragma once

#include <cstdint>

#include "fovea/ops.h"
#include "fovea/reinforce.h"
#include "fovea/tensor.h"

// What a model that writes tokens learns from, and what it is judged by.
namespace fovea::models {

// Sentences side by side, time-major, padded at the end.
struct Batch {
  Tensor source, source_lengths;  // i64 [S,B], [B]
  Tensor target_in, target_out;   // i64 [T,B]: begin y_1 …, and y_1 … end
  int64_t padding = 0;            // in target_out, what is not learned
};

// And how hard attention learns: loss = −log p(y|a), or the mean of the two ways' where each row
// goes two, and the terms of reinforce(), a reward being log p(y_t).
struct LossConfig : ReinforceConfig {
  Mode mode = Mode::train;  // eval: nothing is dropped or drawn, and only −log p counts
  float label_smoothing = 0.0f;
  float dropout = 0.0f;
  uint64_t seed = 0;
  // What a Transformer's blocks compute in: bf16 where a device does (docs/gpu.md). Weights, what
  // is learned of them and the loss stay f32.
  DType type = DType::f32;
};

struct Loss {
  Tensor loss;         // [], to differentiate, a mean over tokens
  double nll = 0;      // −log p summed over …
  int64_t tokens = 0;  // … the tokens that count, end included
};

}  // namespace fovea::models
