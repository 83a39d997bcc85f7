#include "checkpoints/families.h"

namespace fovea::checkpoints {

extern const Architecture architecture_qwen2 = {
    "qwen2", "Qwen2", "model.", [](const Config& c, const StoredTensors& stored) {
      ModelPlan p = llama_plan(c, stored, {.qkv_bias = true});
      add_qwen_windows(p, c);
      return p;
    }};

}  // namespace fovea::checkpoints
