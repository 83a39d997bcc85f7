#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "app/attend.h"
#include "attention/check.h"

namespace fovea::app {
namespace {

// Those tensors of the file that a mechanism lists as its parameters. Masks of bytes or integers
// count as true and false.
Tensors collect(const std::vector<ParameterDef>& defs, Inputs& inputs) {
  Tensors found;
  for (const ParameterDef& def : defs) {
    Tensor tensor = inputs.find(bare_name(def));
    if (!tensor) continue;
    if (def.dtype == DType::boolean && tensor.dtype() == DType::i64) tensor = tensor.to(def.dtype);
    found[bare_name(def)] = tensor;
  }
  return found;
}

bool takes(const ScoreDef& score, const std::string& name) {
  return std::any_of(score.parameters.begin(), score.parameters.end(),
                     [&](const ParameterDef& p) { return bare_name(p) == name; });
}

// Whether the file has what a score needs.
bool complete(const ScoreDef& score, const Inputs& inputs) {
  return std::all_of(score.parameters.begin(), score.parameters.end(), [&](const ParameterDef& p) {
    return is_optional(p) || inputs.tensors.contains(bare_name(p));
  });
}

// A name may be that of two scores: then the other one is meant where the file has all it needs,
// and nothing of the first but what they share.
const ScoreDef& meant(const ScoreDef& named, const Inputs& inputs) {
  if (complete(named, inputs)) return named;
  for (const ScoreDef* other : score_table()) {
    if (other->also != named.name || !complete(*other, inputs)) continue;
    const bool shared =
        std::all_of(named.parameters.begin(), named.parameters.end(), [&](const ParameterDef& p) {
          return takes(*other, bare_name(p)) || !inputs.tensors.contains(bare_name(p));
        });
    if (shared) return *other;
  }
  return named;
}

Mask choose_mask(const AttendOptions& options, Inputs& inputs) {
  Mask chosen = mask(options.mask);
  for (MaskTerm& term : chosen.terms) {
    for (const ParameterDef& p : term.def->parameters) {
      if (!is_optional(p)) inputs.require(bare_name(p));
    }
    term.parameters = collect(term.def->parameters, inputs);
    term.renormalise |= options.renormalise;
  }
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

Tensor Inputs::as_stored(const std::string& name) {
  const Tensor t = require(name);
  const auto found = halves.find(name);
  return found == halves.end() || t.device() != Device::cpu ? t : t.to(found->second);
}

Attention choose(AttendOptions& options, Inputs& inputs) {
  Attention chosen;
  const ScoreDef& def = meant(*score(options.score).def, inputs);
  options.score = def.name;
  chosen.score = score(def.name, collect(def.parameters, inputs));
  chosen.score.scale = options.scale;
  chosen.score.softcap = options.softcap;
  if (const Tensor bias = inputs.find("bias")) chosen.score.bias = Bias{.table = bias};
  chosen.mask = choose_mask(options, inputs);
  chosen.weighting = weighting(options.weighting);
  if (options.sink) {
    const Tensor q = inputs.require("q");
    const int64_t heads = q.rank() == 4 ? q.size(1) : 1;
    inputs.tensors["sink"] = Tensor::full({heads}, *options.sink);
  }
  chosen.weighting.parameters = collect(chosen.weighting.def->parameters, inputs);
  chosen.weighting.temperature = options.temperature;
  chosen.weighting.dropout = options.dropout;
  chosen.weighting.seed = static_cast<uint64_t>(options.seed);
  return chosen;
}

}  // namespace fovea::app
