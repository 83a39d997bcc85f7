#include <fmt/format.h>

#include <cmath>

#include "checkpoints/families.h"
#include "fovea/error.h"

// Marian's translators: norms after each part, sines then cosines as positions, which are no tensor
// of the file: a table of them is made here.
namespace fovea::checkpoints {
namespace {

// sin(p/10000^(2i/W)) for the first half of a row, cosines for the second.
Tensor sines_then_cosines(int64_t positions, int64_t width) {
  Tensor t = Tensor::empty({positions, width}, DType::f32, Device::cpu);
  float* out = t.mutable_data<float>();
  const int64_t sines = (width + 1) / 2;
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t i = 0; i < width; ++i) {
      const int64_t pair = i < sines ? i : i - sines;
      const double a = static_cast<double>(p) / std::pow(10000.0, 2.0 * static_cast<double>(pair) /
                                                                      static_cast<double>(width));
      out[p * width + i] = static_cast<float>(i < sines ? std::sin(a) : std::cos(a));
    }
  }
  return t;
}

int64_t same_on_both_sides(const Config& c, const std::string& encoder,
                           const std::string& decoder) {
  const int64_t n = c.integer(encoder, {1, int64_t{1} << 20});
  if (c.integer(decoder, {1, int64_t{1} << 20}) != n) {
    c.refuse(decoder, fmt::format("and known here is the same as {}, {}", encoder, n));
  }
  return n;
}

void add_marian_stack(ModelPlan& p, const std::string& ours_stack, int64_t blocks) {
  const models::TransformerConfig& n = p.network;
  const int64_t W = n.depth, M = n.mlp_width;
  const bool decodes = ours_stack == "decoder";
  for (int64_t b = 0; b < blocks; ++b) {
    const std::string ours = fmt::format("{}.{}.", ours_stack, b);
    const std::string theirs = fmt::format("{}.layers.{}.", ours_stack, b);
    const std::string self = theirs + "self_attn.", cross = theirs + "encoder_attn.";
    const auto norm = [&](const char* own, const std::string& name) {
      add_norm(p.recipe, ours + own, theirs + name, W, nn::NormKind::layer);
    };
    add_linear(
        p.recipe, ours + "self.in",
        {.from = {self + "q_proj", self + "k_proj", self + "v_proj"}, .rows = {W, W, W}, .in = W});
    add_linear(p.recipe, ours + "self.out", {.from = {self + "out_proj"}, .rows = {W}, .in = W});
    norm("self_norm", "self_attn_layer_norm");
    if (decodes) {
      add_cross(p.recipe, ours + "cross",
                {cross + "q_proj", cross + "k_proj", cross + "v_proj", cross + "out_proj"}, {W, W},
                true);
      norm("cross_norm", "encoder_attn_layer_norm");
    }
    add_linear(p.recipe, ours + "mlp.up", {.from = {theirs + "fc1"}, .rows = {M}, .in = W});
    add_linear(p.recipe, ours + "mlp.down", {.from = {theirs + "fc2"}, .rows = {W}, .in = M});
    norm("mlp_norm", "final_layer_norm");
  }
  p.recipe[ours_stack + ".positions"] = {
      .parts = {}, .computed = [longest = n.longest, W] { return sines_then_cosines(longest, W); }};
}

ModelPlan marian_plan(const Config& c, const StoredTensors& stored) {
  ModelPlan p{.purpose = Purpose::translates};
  models::TransformerConfig& n = p.network;
  n.source_vocabulary = c.integer("vocab_size");
  n.target_vocabulary = c.integer("decoder_vocab_size", n.source_vocabulary, {});
  n.depth = c.integer("d_model");
  n.blocks = c.integer("encoder_layers", {1, 512});
  n.decoder_blocks = c.integer("decoder_layers", {1, 512});
  n.heads = same_on_both_sides(c, "encoder_attention_heads", "decoder_attention_heads");
  n.mlp_width = same_on_both_sides(c, "encoder_ffn_dim", "decoder_ffn_dim");
  if (n.depth % n.heads != 0) {
    c.refuse("encoder_attention_heads", fmt::format("and does not divide d_model {}", n.depth));
  }
  for (const char* key : {"normalize_before", "normalize_embedding", "add_final_layer_norm"}) {
    if (c.flag(key, false)) c.refuse(key, "which is not known here");
  }
  n.activation = activation_in(c, "activation_function", "gelu");
  n.order = nn::NormOrder::post;
  n.positions = nn::Positions::learned;
  n.longest = p.longest = c.integer("max_position_embeddings");
  n.embedding_scale =
      c.flag("scale_embedding", false) ? std::sqrt(static_cast<float>(n.depth)) : 1.0f;
  n.biases.output = nn::WithBias::yes;

  const int64_t W = n.depth;
  const auto either = [&](const char* own, const char* shared) {
    return stored.has(own) ? own : shared;
  };
  add_tensor(p.recipe, "source.weight", either("encoder.embed_tokens.weight", "shared.weight"),
             {n.source_vocabulary, W});
  const std::string target = either("decoder.embed_tokens.weight", "shared.weight");
  add_tensor(p.recipe, "target.weight", target, {n.target_vocabulary, W});
  n.tied = !stored.has("lm_head.weight");
  if (!n.tied) add_tensor(p.recipe, "output.weight", "lm_head.weight", {n.target_vocabulary, W});
  p.recipe["output.bias"] = {.parts = {{"final_logits_bias", {1, n.target_vocabulary}}},
                             .shape = {n.target_vocabulary}};
  add_marian_stack(p, "encoder", n.blocks);
  add_marian_stack(p, "decoder", n.decoder_blocks);
  p.passed_by = {"embed_positions.weight", "shared.weight"};
  return p;
}

}  // namespace

extern const Architecture architecture_marian = {"marian", "Marian", "model.", marian_plan};

}  // namespace fovea::checkpoints
