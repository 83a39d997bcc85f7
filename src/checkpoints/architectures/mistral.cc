#include "checkpoints/families.h"

// Llama with a window. A config that does not speak of it means 4096; null means none.
namespace fovea::checkpoints {

extern const Architecture architecture_mistral = {
    "mistral", "Mistral", "model.", [](const Config& c, const StoredTensors& stored) {
      ModelPlan p = llama_plan(c, stored, {});
      constexpr int64_t kUnsaid = 4096;
      const bool none = c.json().contains("sliding_window") && !c.has("sliding_window");
      const int64_t window = none ? 0 : c.integer("sliding_window", kUnsaid, {1, int64_t{1} << 30});
      for (const int64_t w :
           windows_in(c, p.network.blocks, window, [](int64_t) { return true; })) {
        p.network.each.push_back({.window = w, .rotary = p.network.rotary});
      }
      return p;
    }};

}  // namespace fovea::checkpoints
