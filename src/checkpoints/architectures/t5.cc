#include <fmt/format.h>

#include <cmath>

#include "checkpoints/families.h"
#include "fovea/error.h"
#include "fovea/ops.h"

// T5 1.0 and 1.1: RMS norms before each part, distances in buckets, scores without a scale, no
// biases. Where the output is the embedding (1.0), rows are divided by √W before it: the last norm
// does that here.
namespace fovea::checkpoints {
namespace {

// 1.1 says it in two ways: tie_word_embeddings: false, or, since transformers 5,
// scale_decoder_outputs: false beside tie_word_embeddings: true.
bool scales_output(const Config& c) {
  if (c.has("scale_decoder_outputs")) return c.flag("scale_decoder_outputs", true);
  return c.flag("tie_word_embeddings", true);
}

nn::Activation t5_activation(const Config& c) {
  const std::string name = c.text("feed_forward_proj", "relu");
  if (name == "relu") return nn::Activation::relu;
  if (name == "gated-gelu") return nn::Activation::geglu_tanh;
  if (name == "gated-silu") return nn::Activation::swiglu;
  c.refuse("feed_forward_proj", "and known here are relu, gated-gelu and gated-silu");
}

void add_t5_stack(ModelPlan& p, const std::string& stack, int64_t blocks) {
  const models::TransformerConfig& n = p.network;
  const int64_t W = n.depth, M = n.mlp_width, q = n.heads * n.head_depth;
  constexpr auto kRms = nn::NormKind::rms;
  const bool decodes = stack == "decoder";
  for (int64_t b = 0; b < blocks; ++b) {
    const std::string ours = fmt::format("{}.{}.", stack, b);
    const std::string theirs = fmt::format("{}.block.{}.layer.", stack, b);
    const std::string self = theirs + "0.SelfAttention.", cross = theirs + "1.EncDecAttention.";
    const std::string last = theirs + (decodes ? "2." : "1.");
    add_linear(
        p.recipe, ours + "self.in",
        {.from = {self + "q", self + "k", self + "v"}, .rows = {q, q, q}, .in = W, .bias = false});
    add_linear(p.recipe, ours + "self.out",
               {.from = {self + "o"}, .rows = {W}, .in = q, .bias = false});
    add_norm(p.recipe, ours + "self_norm", theirs + "0.layer_norm", W, kRms);
    if (decodes) {
      add_cross(p.recipe, ours + "cross", {cross + "q", cross + "k", cross + "v", cross + "o"},
                {W, q}, false);
      add_norm(p.recipe, ours + "cross_norm", theirs + "1.layer_norm", W, kRms);
    }
    const std::string mlp = last + "DenseReluDense.";
    std::vector<std::string> up = {mlp + "wi"};
    if (nn::is_gated(n.activation)) up = {mlp + "wi_0", mlp + "wi_1"};
    add_linear(p.recipe, ours + "mlp.up", {.from = up, .rows = {M}, .in = W, .bias = false});
    add_linear(p.recipe, ours + "mlp.down",
               {.from = {mlp + "wo"}, .rows = {W}, .in = M, .bias = false});
    add_norm(p.recipe, ours + "mlp_norm", last + "layer_norm", W, kRms);
  }
  add_norm(p.recipe, stack + ".norm", stack + ".final_layer_norm", W, kRms);
  add_tensor(p.recipe, stack + ".positions",
             stack + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight",
             {n.buckets, n.heads});
}

ModelPlan t5_plan(const Config& c, const StoredTensors& stored) {
  ModelPlan p{.purpose = Purpose::translates};
  models::TransformerConfig& n = p.network;
  n.source_vocabulary = n.target_vocabulary = c.integer("vocab_size");
  n.depth = c.integer("d_model");
  n.head_depth = c.integer("d_kv", {1, 4096});
  n.mlp_width = c.integer("d_ff");
  n.blocks = c.integer("num_layers", {1, 512});
  n.decoder_blocks = c.integer("num_decoder_layers", n.blocks, {1, 512});
  n.heads = c.integer("num_heads", {1, 1024});
  n.buckets = c.integer("relative_attention_num_buckets", 32, {4, 65536});
  n.farthest = c.integer("relative_attention_max_distance", 128, {n.buckets / 2, 1 << 24});
  n.activation = t5_activation(c);
  n.norm = nn::NormKind::rms;
  n.epsilon = static_cast<float>(c.real("layer_norm_epsilon", 1e-6));
  n.positions = nn::Positions::t5;
  n.score = "dot";
  n.biases = {nn::WithBias::no, nn::WithBias::no, nn::WithBias::no};

  const int64_t W = n.depth, V = n.target_vocabulary;
  const auto either = [&](const char* own) { return stored.has(own) ? own : "shared.weight"; };
  add_tensor(p.recipe, "source.weight", either("encoder.embed_tokens.weight"), {V, W});
  add_tensor(p.recipe, "target.weight", either("decoder.embed_tokens.weight"), {V, W});
  n.tied = !stored.has("lm_head.weight");
  const bool scaled = scales_output(c);
  if (n.tied && !scaled) {
    throw Error("open",
                "tensor 'lm_head.weight' is missing, and the config says that the output "
                "is not the embedding (tie_word_embeddings, scale_decoder_outputs)");
  }
  if (!n.tied) add_tensor(p.recipe, "output.weight", "lm_head.weight", {V, W});
  add_t5_stack(p, "encoder", n.blocks);
  add_t5_stack(p, "decoder", n.decoder_blocks);
  if (scaled) p.recipe["decoder.norm.weight"].times = 1.0f / std::sqrt(static_cast<float>(W));
  p.passed_by = {"shared.weight",
                 "layer.1.EncDecAttention.relative_attention_bias.weight"};  // of old, not used
  return p;
}

}  // namespace

extern const Architecture architecture_t5 = {"t5", "T5", "", t5_plan};

}  // namespace fovea::checkpoints
