#include "checkpoints/families.h"
#include "checkpoints/rope.h"

// Gemma 3, its text: five of six blocks see a window, and turn by a base of their own.
namespace fovea::checkpoints {
namespace {

ModelPlan gemma3_plan(const Config& c, const StoredTensors& stored) {
  const bool bias = c.flag("attention_bias", false);
  ModelPlan p = llama_plan(c, stored,
                           {.qkv_bias = bias,
                            .out_bias = bias,
                            .qk_norm = true,
                            .head_depth = 256,
                            .tied = true,
                            .activation_key = "hidden_activation",
                            .activation = "gelu_pytorch_tanh"});
  become_gemma(p, c);
  models::TransformerConfig& n = p.network;
  if (c.has("attn_logit_softcapping")) {
    n.score_cap = static_cast<float>(c.real("attn_logit_softcapping"));
  }
  if (c.has("final_logit_softcapping")) {
    n.output_cap = static_cast<float>(c.real("final_logit_softcapping"));
  }
  const int64_t window = c.integer("sliding_window", 4096, {1, int64_t{1} << 30});
  const int64_t pattern = c.integer("sliding_window_pattern", 6, {1, 512});
  constexpr double kGlobal = 1'000'000.0, kLocal = 10'000.0;
  const nn::RotaryConfig global = rotary_in(c, n.head_depth, kGlobal, "full_attention");
  nn::RotaryConfig local = rotary_in(c, n.head_depth, kLocal, "sliding_attention");
  if (!c.object("rope_parameters")) {
    local = base_alone(n.head_depth, c.real("rope_local_base_freq", kLocal));
  }
  const auto slides = [&](int64_t b) { return (b + 1) % pattern != 0; };
  for (const int64_t w : windows_in(c, n.blocks, window, slides)) {
    n.each.push_back({.window = w, .rotary = w > 0 ? local : global});
  }
  return p;
}

}  // namespace

extern const Architecture architecture_gemma3_text = {"gemma3_text", "Gemma 3", "model.",
                                                      gemma3_plan};

}  // namespace fovea::checkpoints
