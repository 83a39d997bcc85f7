#include "tasks/transformer_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

namespace fovea::tasks {

void visit_transformer(Fields& f, models::TransformerConfig& c) {
  using nn::Activation, nn::NormKind, nn::NormOrder, nn::Positions;
  f.group("Transformer");
  f.integer("blocks", c.blocks, "attention and MLP, one upon the other", {1, 512});
  f.integer("query-depth", c.depth, "width of queries, all heads together", {1, 65536});
  f.integer("heads", c.heads, "they divide the query depth", {1, 1024});
  f.integer("key-heads", c.key_heads,
            "heads of keys and values, which query heads share; 0: as many as heads", {0, 1024});
  f.integer("mlp-width", c.mlp_width, "inside of the MLP; 0: four times the query depth", {0, 1e6});
  f.named("positions", c.positions, "how positions are encoded",
          std::vector<Positions>{Positions::none, Positions::sinusoidal, Positions::learned,
                                 Positions::rotary, Positions::alibi, Positions::t5});
  f.named("activation", c.activation, "of the MLP",
          std::vector<Activation>{Activation::relu, Activation::gelu, Activation::gelu_tanh,
                                  Activation::swiglu});
  f.named("norm", c.norm, "how rows are brought to one scale",
          std::vector<NormKind>{NormKind::layer, NormKind::rms});
  f.named("norm-order", c.order, "pre: x + f(norm(x)); post: norm(x + f(x))",
          std::vector<NormOrder>{NormOrder::post, NormOrder::pre});
  f.flag("linear", c.linear, "linear (fast-weight) self-attention: a state of fixed size");
  f.flag("tied", c.tied, "the output layer is the embedding");
}

namespace {

struct OfTransformer final : Settings {
  models::TransformerConfig c;
  explicit OfTransformer(const models::TransformerConfig& from) : c(from) {}
  void visit(Fields& f) override { visit_transformer(f, c); }
};

}  // namespace

std::vector<std::string> options_set(const models::TransformerConfig& c,
                                     const models::TransformerConfig& usual) {
  OfTransformer found(c), expected(usual);
  const nlohmann::ordered_json before = to_json(expected), now = to_json(found);
  std::vector<std::string> names;
  for (const auto& [name, value] : now.items()) {
    if (value != before[name]) names.push_back("--" + name);
  }
  return names;
}

std::string set_in_vain(const models::TransformerConfig& c, const models::TransformerConfig& usual,
                        const std::string& model) {
  const std::vector<std::string> names = options_set(c, usual);
  if (names.empty()) return {};
  return fmt::format("{}: of a Transformer; --model {} does not use {}", fmt::join(names, ", "),
                     model, names.size() == 1 ? "it" : "them");
}

std::string text_of(const models::TransformerConfig& c) {
  return fmt::format("Transformer, {} block{} of {}, {} head{}", c.blocks, c.blocks == 1 ? "" : "s",
                     c.depth, c.heads, c.heads == 1 ? "" : "s");
}

std::string attention_of(const models::TransformerConfig& c) {
  const std::string how = c.linear ? "linear" : fmt::format("{}, {}", c.score, c.weighting);
  return fmt::format("{}, {} positions", how, name_of(c.positions));
}

std::vector<train::ParameterGroup> without_decay() {
  const auto plain = [](const std::string& name) {
    return name.ends_with(".bias") || name.find("norm.") != std::string::npos ||
           name.ends_with("_after.weight") || name.ends_with(".positions");
  };
  return {{.has = plain, .weight_decay = 0.0f}};
}

}  // namespace fovea::tasks
