#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "app/attend.h"

namespace fovea::app {
namespace {

// local-p and local_p are the same name; a width after the colon stays as it is.
std::string spelled(std::string name) {
  const auto end = name.begin() + static_cast<long>(std::min(name.find(':'), name.size()));
  std::replace(name.begin(), end, '-', '_');
  return name;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  if (text.empty() || text.back() == separator) parts.emplace_back();
  return parts;
}

// Masks of bytes or integers count as true and false.
Tensor as_mask(const Tensor& mask) {
  return mask.defined() && mask.dtype() == DType::i64 ? mask.to(DType::boolean) : mask;
}

// Those tensors of the file that the mechanism lists as its parameters. The matrix mask's is called
// `mask` in a file.
void collect(const std::vector<Listed>& list, const std::string& name, Inputs& inputs,
             Tensors& parameters) {
  for (const Listed& item : list) {
    if (item.name != name) continue;
    for (const std::string& declared : item.parameters) {  // "w_q [A,Dq]", "b? [A]"
      const std::string parameter = declared.substr(0, declared.find_first_of(" ?"));
      const bool matrix = name == "matrix";
      const Tensor tensor = matrix ? as_mask(inputs.find("mask")) : inputs.find(parameter);
      if (!tensor.defined() && matrix) inputs.require("mask");
      if (tensor.defined()) parameters[parameter] = tensor;
    }
  }
}

// `additive` without its two matrices, but with a u as wide as the queries, is Keras's.
std::string keras_or(const std::string& name, Inputs& inputs, const Tensor& q) {
  const auto has = [&](const char* x) { return inputs.tensors.contains(x); };
  if (name != "additive" || has("w_q") || has("w_k") || !has("u") || q.rank() == 0) return name;
  return inputs.tensors.at("u").numel() == q.size(-1) ? "additive_keras" : name;
}

Mask choose_mask(const AttendOptions& options, Inputs& inputs) {
  Tensors parameters;
  std::vector<std::string> terms = split(options.mask, '+');
  for (std::string& term : terms) {
    term = spelled(term);
    collect(list_masks(), term.substr(0, term.find(':')), inputs, parameters);
  }
  Mask chosen = mask(fmt::format("{}", fmt::join(terms, "+")), parameters);
  for (MaskTerm& term : chosen.terms) term.renormalise |= options.renormalise;
  return chosen;
}

}  // namespace

Tensor Inputs::find(const std::string& name) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) return {};
  used.insert(name);
  return found->second;
}

Tensor Inputs::require(const std::string& name) {
  Tensor tensor = find(name);
  if (tensor.defined()) return tensor;
  std::vector<std::string> names;
  for (const auto& [present, _] : tensors) names.push_back(present);
  throw Error("attend",
              fmt::format("the input needs a tensor {}, it has {}", name,
                          names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
}

Attention choose(AttendOptions& options, Inputs& inputs) {
  Attention chosen;
  options.score = keras_or(spelled(options.score), inputs, inputs.require("q"));
  Tensors parameters;
  collect(list_scores(), options.score, inputs, parameters);
  chosen.score = score(options.score, parameters);
  chosen.score.scale = options.scale;
  if (const Tensor bias = inputs.find("bias")) chosen.score.bias = Bias{.table = bias};
  chosen.mask = choose_mask(options, inputs);
  chosen.weighting = weighting(spelled(options.weighting));
  chosen.weighting.temperature = options.temperature;
  chosen.weighting.dropout = options.dropout;
  chosen.weighting.seed = options.seed;
  return chosen;
}

}  // namespace fovea::app
