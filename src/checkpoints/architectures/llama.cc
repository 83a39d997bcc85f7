#include "checkpoints/families.h"

namespace fovea::checkpoints {

extern const Architecture architecture_llama = {
    "llama", "Llama", "model.", [](const Config& c, const StoredTensors& stored) {
      const bool bias = c.flag("attention_bias", false);
      return llama_plan(
          c, stored, {.qkv_bias = bias, .out_bias = bias, .mlp_bias = c.flag("mlp_bias", false)});
    }};

}  // namespace fovea::checkpoints
