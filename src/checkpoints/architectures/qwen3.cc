#include "checkpoints/families.h"

// Qwen2 without biases, each head's queries and keys through norms of their own.
namespace fovea::checkpoints {

extern const Architecture architecture_qwen3 = {
    "qwen3", "Qwen3", "model.", [](const Config& c, const StoredTensors& stored) {
      const bool bias = c.flag("attention_bias", false);
      ModelPlan p = llama_plan(
          c, stored, {.qkv_bias = bias, .out_bias = bias, .qk_norm = true, .head_depth = 128});
      add_qwen_windows(p, c);
      return p;
    }};

}  // namespace fovea::checkpoints
