#include <fmt/format.h>

#include "checkpoints/architecture.h"

// GPT-2: norms before each part, learned positions. Its matrices are stored [in, out].
namespace fovea::checkpoints {
namespace {

ModelPlan gpt2_plan(const Config& c, const StoredTensors& stored) {
  for (const char* key : {"scale_attn_by_inverse_layer_idx", "add_cross_attention"}) {
    if (c.flag(key, false)) c.refuse(key, "which is not known here");
  }
  ModelPlan p{.purpose = Purpose::writes};
  models::TransformerConfig& n = p.network;
  n.target_vocabulary = c.integer("vocab_size");
  n.depth = c.integer("n_embd");
  n.blocks = c.integer("n_layer", {1, 512});
  n.heads = c.integer("n_head", {1, 1024});
  if (n.depth % n.heads != 0)
    c.refuse("n_head", fmt::format("and does not divide n_embd {}", n.depth));
  n.mlp_width = c.integer("n_inner", 4 * n.depth, {1, int64_t{1} << 24});
  n.activation = activation_in(c, "activation_function", "gelu_new");
  n.epsilon = static_cast<float>(c.real("layer_norm_epsilon", 1e-5));
  n.positions = nn::Positions::learned;
  n.longest = p.longest = c.integer("n_positions");
  if (!c.flag("scale_attn_weights", true)) n.score_scale = 1.0f;
  n.tied = !stored.has("lm_head.weight");

  const int64_t W = n.depth, M = n.mlp_width, V = n.target_vocabulary;
  constexpr auto kLayer = nn::NormKind::layer;
  add_tensor(p.recipe, "target.weight", "wte.weight", {V, W});
  add_tensor(p.recipe, "decoder.positions", "wpe.weight", {n.longest, W});
  if (!n.tied) add_tensor(p.recipe, "output.weight", "lm_head.weight", {V, W});
  add_norm(p.recipe, "decoder.norm", "ln_f", W, kLayer);
  for (int64_t b = 0; b < n.blocks; ++b) {
    const std::string ours = fmt::format("decoder.{}.", b), theirs = fmt::format("h.{}.", b);
    const auto layer = [&](const char* own, const char* name, int64_t in, int64_t out) {
      add_linear(p.recipe, ours + own,
                 {.from = {theirs + name}, .rows = {out}, .in = in, .transposed = true});
    };
    layer("self.in", "attn.c_attn", W, 3 * W);
    layer("self.out", "attn.c_proj", W, W);
    layer("mlp.up", "mlp.c_fc", W, M);
    layer("mlp.down", "mlp.c_proj", M, W);
    add_norm(p.recipe, ours + "self_norm", theirs + "ln_1", W, kLayer);
    add_norm(p.recipe, ours + "mlp_norm", theirs + "ln_2", W, kLayer);
  }
  p.passed_by = {".attn.bias", ".attn.masked_bias"};
  return p;
}

}  // namespace

extern const Architecture architecture_gpt2 = {"gpt2", "GPT-2", "transformer.", gpt2_plan};

}  // namespace fovea::checkpoints
