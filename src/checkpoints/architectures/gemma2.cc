#include "checkpoints/families.h"

// Gemma 2: every second block sees a window; scores and logits are capped.
namespace fovea::checkpoints {
namespace {

// Absent: as the architecture has it; null: none.
std::optional<float> cap_in(const Config& c, const std::string& key, double otherwise) {
  if (c.json().contains(key) && !c.has(key)) return {};
  return static_cast<float>(c.real(key, otherwise));
}

ModelPlan gemma2_plan(const Config& c, const StoredTensors& stored) {
  const bool bias = c.flag("attention_bias", false);
  ModelPlan p = llama_plan(c, stored,
                           {.qkv_bias = bias,
                            .out_bias = bias,
                            .head_depth = 256,
                            .tied = true,
                            .activation_key = "hidden_activation",
                            .activation = "gelu_pytorch_tanh"});
  become_gemma(p, c);
  p.network.score_cap = cap_in(c, "attn_logit_softcapping", 50.0);
  p.network.output_cap = cap_in(c, "final_logit_softcapping", 30.0);
  const int64_t window = c.integer("sliding_window", 4096, {1, int64_t{1} << 30});
  const auto even = [](int64_t b) { return b % 2 == 0; };
  for (const int64_t w : windows_in(c, p.network.blocks, window, even)) {
    p.network.each.push_back({.window = w, .rotary = p.network.rotary});
  }
  return p;
}

}  // namespace

extern const Architecture architecture_gemma2 = {"gemma2", "Gemma 2", "model.", gemma2_plan};

}  // namespace fovea::checkpoints
