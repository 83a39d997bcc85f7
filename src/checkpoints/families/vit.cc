#include "checkpoints/families.h"

#include <fmt/format.h>

#include "fovea/error.h"

namespace fovea::checkpoints {
namespace {

void read_vit_sizes(const Config& c, models::TransformerConfig& n) {
  n.depth = c.integer("hidden_size");
  n.heads = c.integer("num_attention_heads", {1, 1024});
  n.blocks = c.integer("num_hidden_layers", {1, 512});
  n.mlp_width = c.integer("intermediate_size");
  n.activation = activation_in(c, "hidden_act", "gelu");
  n.epsilon = static_cast<float>(c.real("layer_norm_eps", 1e-12));
  n.positions = nn::Positions::learned;
  n.biases.in = c.flag("qkv_bias", true) ? nn::WithBias::yes : nn::WithBias::no;
  if (n.depth % n.heads != 0) {
    c.refuse("num_attention_heads", fmt::format("and does not divide hidden_size {}", n.depth));
  }
}

PicturePlan read_picture(const Config& c, const VitNames& names) {
  PicturePlan pixels{.side = c.integer("image_size", 224, {1, 16384}),
                     .patch = c.integer("patch_size", 16, {1, 16384}),
                     .channels = c.integer("num_channels", 3, {1, 4}),
                     .tokens = static_cast<int64_t>(names.tokens.size())};
  if (pixels.channels != 1 && pixels.channels != 3) c.refuse("num_channels", "expected 1 or 3");
  if (pixels.side % pixels.patch != 0) {
    c.refuse("patch_size", fmt::format("expected a divisor of image_size {}", pixels.side));
  }
  return pixels;
}

void add_vit_head(ModelPlan& p, const Config& c, const StoredTensors& stored,
                  const VitNames& names) {
  const int64_t W = p.network.depth;
  const Shape* out = stored.shape_of(names.out.front() + ".weight");
  if (out == nullptr && is_by_itself(c)) {
    p.purpose = Purpose::views;
    return;
  }
  if (out == nullptr || out->size() != 2) {
    throw Error("open", fmt::format("{}: there is no matrix {}.weight, which tells classes of "
                                    "pictures",
                                    c.file(), names.out.front()));
  }
  p.head = HeadPlan{.in = W, .out = (*out)[0], .second = names.out.size() > 1};
  add_linear(p.recipe, "head.out", {.from = {names.out[0]}, .rows = {p.head->out}, .in = W});
  if (p.head->second) {
    add_linear(p.recipe, "head.second", {.from = {names.out[1]}, .rows = {p.head->out}, .in = W});
  }
}

void add_vit_rows(ModelPlan& p, const VitNames& names) {
  const PicturePlan& pixels = *p.picture;
  const int64_t W = p.network.depth;
  const std::string patches = "embeddings.patch_embeddings.projection";
  p.recipe["patches.weight"] = {
      .parts = {{patches + ".weight", {W, pixels.channels, pixels.patch, pixels.patch}}},
      .shape = {W, pixels.channels * pixels.patch * pixels.patch}};
  add_tensor(p.recipe, "patches.bias", patches + ".bias", {W});
  TensorRecipe tokens{.parts = {}, .shape = {pixels.tokens, W}};
  for (const std::string& name : names.tokens) tokens.parts.push_back({name, {1, 1, W}});
  p.recipe["tokens"] = std::move(tokens);
  p.recipe["encoder.positions"] = {
      .parts = {{"embeddings.position_embeddings", {1, p.network.longest, W}}},
      .shape = {p.network.longest, W}};
}

void add_vit_block(ModelPlan& p, int64_t b) {
  const models::TransformerConfig& n = p.network;
  const int64_t W = n.depth, M = n.mlp_width;
  const std::string ours = fmt::format("encoder.{}.", b),
                    theirs = fmt::format("encoder.layer.{}.", b),
                    self = theirs + "attention.attention.";
  add_linear(p.recipe, ours + "self.in",
             {.from = {self + "query", self + "key", self + "value"},
              .rows = {W, W, W},
              .in = W,
              .bias = n.biases.in == nn::WithBias::yes});
  add_linear(p.recipe, ours + "self.out",
             {.from = {theirs + "attention.output.dense"}, .rows = {W}, .in = W});
  add_linear(p.recipe, ours + "mlp.up",
             {.from = {theirs + "intermediate.dense"}, .rows = {M}, .in = W});
  add_linear(p.recipe, ours + "mlp.down",
             {.from = {theirs + "output.dense"}, .rows = {W}, .in = M});
  add_norm(p.recipe, ours + "self_norm", theirs + "layernorm_before", W, nn::NormKind::layer);
  add_norm(p.recipe, ours + "mlp_norm", theirs + "layernorm_after", W, nn::NormKind::layer);
}

}  // namespace

ModelPlan vit_plan(const Config& c, const StoredTensors& stored, const VitNames& names) {
  ModelPlan p{.purpose = Purpose::sees};
  models::TransformerConfig& n = p.network;
  read_vit_sizes(c, n);
  p.picture = read_picture(c, names);
  const int64_t across = p.picture->side / p.picture->patch;
  n.longest = p.longest = across * across + p.picture->tokens;
  add_vit_head(p, c, stored, names);
  add_vit_rows(p, names);
  for (int64_t b = 0; b < n.blocks; ++b) add_vit_block(p, b);
  add_norm(p.recipe, "encoder.norm", "layernorm", n.depth, nn::NormKind::layer);
  p.passed_by = {"pooler.dense.weight", "pooler.dense.bias", "embeddings.mask_token"};
  return p;
}

}  // namespace fovea::checkpoints
