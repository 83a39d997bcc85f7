#include "checkpoints/architecture.h"

#include <fmt/format.h>

#include "checkpoints/families.h"
#include "core/nearest.h"
#include "fovea/error.h"

namespace fovea::checkpoints {

const char* name_of(Purpose p) {
  static constexpr const char* kNames[] = {"writes on",
                                           "translates",
                                           "fills in masked tokens",
                                           "tells classes of texts",
                                           "tells classes of pictures",
                                           "reads texts, and has no output",
                                           "sees pictures, and has no output"};
  return kNames[static_cast<int>(p)];
}

bool is_of_pictures(Purpose p) { return p == Purpose::sees || p == Purpose::views; }

bool is_by_itself(const Config& config) {
  const std::vector<std::string> of = config.texts("architectures");
  return of.empty() || of.front().ends_with("Model");
}

const Architecture& architecture(const Config& config) {
  const std::string type = config.text("model_type");
  std::vector<std::string> known;
  for (const Architecture* a : architecture_table()) {
    if (a->type == type) return *a;
    known.push_back(a->type);
  }
  config.refuse("model_type",
                fmt::format("an architecture that is not known here{}", nearest_hint(type, known)));
}

nn::Activation activation_in(const Config& config, const std::string& key,
                             const std::string& otherwise) {
  using nn::Activation;
  const std::string name = config.text(key, otherwise);
  if (name == "gelu") return Activation::gelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") {
    return Activation::gelu_tanh;
  }
  if (name == "relu") return Activation::relu;
  if (name == "silu" || name == "swish") return Activation::silu;
  config.refuse(key,
                "an activation that is not known here; there are gelu, gelu_new, "
                "gelu_pytorch_tanh, relu and silu");
}

HeadPlan::Curve curve_of(nn::Activation a) {
  switch (a) {
    case nn::Activation::gelu:
      return HeadPlan::Curve::gelu;
    case nn::Activation::gelu_tanh:
      return HeadPlan::Curve::gelu_tanh;
    case nn::Activation::relu:
      return HeadPlan::Curve::relu;
    default:
      throw Error("open", fmt::format("an output head with {} is not known here", name_of(a)));
  }
}

void add_linear(Recipe& recipe, const std::string& ours, const LinearParts& l) {
  TensorRecipe weight, bias;
  for (size_t i = 0; i < l.from.size(); ++i) {
    const int64_t rows = l.rows[l.rows.size() == 1 ? 0 : i];
    const Shape shape = l.transposed ? Shape{l.in, rows} : Shape{rows, l.in};
    weight.parts.push_back({l.from[i] + ".weight", shape, l.transposed});
    bias.parts.push_back({l.from[i] + ".bias", {rows}});
  }
  recipe[ours + ".weight"] = std::move(weight);
  if (l.bias) recipe[ours + ".bias"] = std::move(bias);
}

void add_norm(Recipe& recipe, const std::string& ours, const std::string& theirs, int64_t width,
              nn::NormKind kind) {
  recipe[ours + ".weight"] = {.parts = {{theirs + ".weight", {width}}}};
  if (kind == nn::NormKind::layer)
    recipe[ours + ".bias"] = {.parts = {{theirs + ".bias", {width}}}};
}

void add_tensor(Recipe& recipe, const std::string& ours, const std::string& theirs,
                const Shape& shape) {
  recipe[ours] = {.parts = {{theirs, shape}}};
}

void add_cross(Recipe& recipe, const std::string& ours, const CrossNames& names,
               const Shape& widths, bool bias) {
  const int64_t W = widths[0], q = widths[1];
  add_linear(recipe, ours + ".query", {.from = {names.q}, .rows = {q}, .in = W, .bias = bias});
  add_linear(recipe, ours + ".memory",
             {.from = {names.k, names.v}, .rows = {q, q}, .in = W, .bias = bias});
  add_linear(recipe, ours + ".out", {.from = {names.out}, .rows = {W}, .in = q, .bias = bias});
}

}  // namespace fovea::checkpoints
