#include "checkpoints/families.h"

namespace fovea::checkpoints {

extern const Architecture architecture_vit = {
    "vit", "ViT", "vit.", [](const Config& c, const StoredTensors& stored) {
      return vit_plan(c, stored, {.tokens = {"embeddings.cls_token"}, .out = {"classifier"}});
    }};

}  // namespace fovea::checkpoints
