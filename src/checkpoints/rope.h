#pragma once

#include <string>

#include "checkpoints/config.h"
#include "fovea/layers.h"

namespace fovea::checkpoints {

// How queries and keys of heads of this depth are turned, as a config says it: `rope_parameters`,
// or `rope_theta` with `rope_scaling` before transformers 5. Known are default, linear, llama3 and
// yarn; another rope_type is refused.
nn::RotaryConfig rotary_in(const Config&, int64_t depth, double base);
// The same by kind of layer, where rope_parameters holds an object for each kind.
nn::RotaryConfig rotary_in(const Config&, int64_t depth, double base, const std::string& layers);

// base^(−2i/d), not scaled.
nn::RotaryConfig base_alone(int64_t depth, double base);

}  // namespace fovea::checkpoints
