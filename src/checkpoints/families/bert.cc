#include "checkpoints/families.h"

#include <fmt/format.h>

#include "fovea/error.h"
#include "fovea/ops.h"

namespace fovea::checkpoints {

BertSizes bert_sizes(const Config& c) {
  if (c.flag("is_decoder", false))
    c.refuse("is_decoder", "and this architecture reads both ways here");
  const std::string kind = c.text("position_embedding_type", "absolute");
  if (kind != "absolute") c.refuse("position_embedding_type", "and known here is absolute");
  return {.depth = c.integer("hidden_size"),
          .heads = c.integer("num_attention_heads", {1, 1024}),
          .blocks = c.integer("num_hidden_layers", {1, 512}),
          .mlp = c.integer("intermediate_size"),
          .activation = activation_in(c, "hidden_act", "gelu"),
          .epsilon = c.real("layer_norm_eps", 1e-12),
          .types = c.integer("type_vocab_size", 2, {1, 1024})};
}

ModelPlan bert_plan(const Config& c, const BertNames& names, const BertSizes& s) {
  ModelPlan p;
  models::TransformerConfig& n = p.network;
  if (s.depth % s.heads != 0) {
    throw Error("open", fmt::format("{}: {} heads do not divide a width of {}", c.file(), s.heads,
                                    s.depth));
  }
  n.source_vocabulary = c.integer("vocab_size");
  n.depth = s.depth;
  n.heads = s.heads;
  n.blocks = s.blocks;
  n.mlp_width = s.mlp;
  n.activation = s.activation;
  n.order = nn::NormOrder::post;
  n.epsilon = static_cast<float>(s.epsilon);
  n.positions = nn::Positions::learned;
  n.embedding_norm = true;
  n.embedding_width = s.embedding;
  n.shared_blocks = s.shared;
  const int64_t stored = c.integer("max_position_embeddings", {s.begins + 1, int64_t{1} << 24});
  n.longest = p.longest = stored - s.begins;
  n.first_position = s.begins;
  n.types = s.types;

  const int64_t W = n.depth, M = n.mlp_width, E = s.embedding > 0 ? s.embedding : W;
  add_tensor(p.recipe, "source.weight", names.embeddings + "word_embeddings.weight",
             {n.source_vocabulary, E});
  add_norm(p.recipe, "encoder.first_norm", names.embeddings + "LayerNorm", E, nn::NormKind::layer);
  add_tensor(p.recipe, "encoder.positions", names.embeddings + "position_embeddings.weight",
             {stored, E});
  if (s.types > 0) {
    add_tensor(p.recipe, "encoder.types", names.embeddings + "token_type_embeddings.weight",
               {s.types, E});
  }
  for (int64_t b = 0; b < (s.shared ? 1 : n.blocks); ++b) {
    const std::string ours = fmt::format("encoder.{}.", b);
    const std::string theirs = s.shared ? names.layer : fmt::format("{}{}.", names.layer, b);
    add_linear(p.recipe, ours + "self.in",
               {.from = {theirs + names.query, theirs + names.key, theirs + names.value},
                .rows = {W, W, W},
                .in = W});
    add_linear(p.recipe, ours + "self.out", {.from = {theirs + names.out}, .rows = {W}, .in = W});
    add_linear(p.recipe, ours + "mlp.up", {.from = {theirs + names.up}, .rows = {M}, .in = W});
    add_linear(p.recipe, ours + "mlp.down", {.from = {theirs + names.down}, .rows = {W}, .in = M});
    add_norm(p.recipe, ours + "self_norm", theirs + names.self_norm, W, nn::NormKind::layer);
    add_norm(p.recipe, ours + "mlp_norm", theirs + names.mlp_norm, W, nn::NormKind::layer);
  }
  p.passed_by = {"position_ids"};
  return p;
}

namespace {

bool is_for_classes(const Config& c) {
  const std::vector<std::string> of = c.texts("architectures");
  return !of.empty() && of.front().ends_with("ForSequenceClassification");
}

int64_t count_classes(const Config& c) {
  constexpr int64_t kUnsaid = 2;  // as transformers has it
  const std::optional<Config> names = c.object("id2label");
  return names ? static_cast<int64_t>(names->json().size()) : kUnsaid;
}

}  // namespace

void add_bert_head(ModelPlan& p, const Config& c, const StoredTensors& stored,
                   const HeadNames& names) {
  const models::TransformerConfig& n = p.network;
  const int64_t W = n.depth, V = n.source_vocabulary;
  const int64_t E = n.embedding_width > 0 ? n.embedding_width : W;
  const auto pass_by = [&](const std::string& name) {
    if (!name.empty()) p.passed_by.insert(p.passed_by.end(), {name + ".weight", name + ".bias"});
  };
  const Shape* out = stored.shape_of(names.tells_out + ".weight");
  if (out != nullptr || is_for_classes(c)) {
    if (out != nullptr && out->size() != 2) {
      throw Error("open", "the classifier's weights are no matrix");
    }
    p.purpose = Purpose::tells;
    const bool dense = !names.tells_dense.empty();
    p.head = HeadPlan{.in = W,
                      .dense = dense ? W : 0,
                      .curve = dense ? names.tells_curve : HeadPlan::Curve::none,
                      .out = out != nullptr ? (*out)[0] : count_classes(c)};
    if (dense) {
      add_linear(p.recipe, "head.dense", {.from = {names.tells_dense}, .rows = {W}, .in = W});
    }
    add_linear(p.recipe, "head.out", {.from = {names.tells_out}, .rows = {p.head->out}, .in = W});
    if (out != nullptr) return;
    for (const std::string& name : {names.dense, names.norm, names.decoder}) pass_by(name);
    p.passed_by.push_back(names.bias);
    return;
  }
  pass_by(names.tells_dense);
  if (!stored.has(names.dense + ".weight") && is_by_itself(c)) {
    p.purpose = Purpose::reads;
    return;
  }
  p.purpose = Purpose::fills;
  p.head = HeadPlan{.in = W,
                    .dense = E,
                    .curve = curve_of(n.activation),
                    .norm = true,
                    .out = V,
                    .tied = !stored.has(names.decoder + ".weight")};
  add_linear(p.recipe, "head.dense", {.from = {names.dense}, .rows = {E}, .in = W});
  add_norm(p.recipe, "head.norm", names.norm, E, nn::NormKind::layer);
  add_tensor(p.recipe, "head.out.bias",
             stored.has(names.bias) ? names.bias : names.decoder + ".bias", {V});
  if (!p.head->tied) add_tensor(p.recipe, "head.out.weight", names.decoder + ".weight", {V, E});
  p.passed_by.insert(p.passed_by.end(), {names.decoder + ".bias", names.bias});
}

}  // namespace fovea::checkpoints
