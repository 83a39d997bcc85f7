#pragma once

#include <cstdint>
#include <span>

#include "fovea/api.h"

namespace fovea::models {

// How a token is drawn from its logits: p ∝ e^{logit/temperature}, of the top_k likeliest, and of
// those the fewest whose probabilities reach top_p.
struct SampleConfig {
  float temperature = 1.0f;  // 0: the likeliest
  int64_t top_k = 0;         // 0: all
  float top_p = 1.0f;
};
// Throws, naming the field and its range.
FOVEA_API void check(const SampleConfig&);

struct Sampled {
  int64_t token = 0;
  double log_p = 0;  // of the model, before anything was cut off
};
// `uniform` in [0,1) decides; tokens in `never` are not drawn. Of equals the first is likelier.
FOVEA_API Sampled sample(std::span<const float> logits, const SampleConfig&, double uniform,
                         std::span<const int64_t> never = {});

}  // namespace fovea::models
