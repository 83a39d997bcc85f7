#pragma once

#include <cstdint>
#include <string>

#include "fovea/nn.h"

namespace fovea::nn {

struct ScoreWidths {
  int64_t query = 0, key = 0;
  int64_t hidden = 0;  // of the layer inside
  int64_t heads = 1;
  int64_t longest = 0;  // keys that a score by position is made for; 0: none
};

// What a score learns by its own table, shapes in letters become sizes: prefix + "w_q", ….
Tensors score_weights(Weights&, const std::string& prefix, const std::string& score,
                      const ScoreWidths&);

}  // namespace fovea::nn
