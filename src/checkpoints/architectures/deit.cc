#include "checkpoints/families.h"

// ViT with a second learned row, which learned from a teacher: the mean of two classifiers counts.
namespace fovea::checkpoints {

extern const Architecture architecture_deit = {
    "deit", "DeiT", "deit.", [](const Config& c, const StoredTensors& stored) {
      const bool two = stored.has("distillation_classifier.weight");
      return vit_plan(
          c, stored,
          {.tokens = {"embeddings.cls_token", "embeddings.distillation_token"},
           .out = two ? std::vector<std::string>{"cls_classifier", "distillation_classifier"}
                      : std::vector<std::string>{"classifier"}});
    }};

}  // namespace fovea::checkpoints
