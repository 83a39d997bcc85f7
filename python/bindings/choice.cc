#include "choice.h"

#include <algorithm>

#include "attention/check.h"

namespace fovea::python {
namespace {

bool declares(const std::vector<ParameterDef>& defs, const std::string& name) {
  return std::any_of(defs.begin(), defs.end(),
                     [&](const ParameterDef& def) { return bare_name(def) == name; });
}

void list(const std::vector<ParameterDef>& defs, std::string& names) {
  for (const ParameterDef& def : defs) names += def.name + ", ";
}

}  // namespace

Choice::Choice(const ChoiceNames& said, const ChoiceNumbers& numbers)
    : names_(said.parameters), plan_(fovea::plan(numbers.plan)) {
  bare_.score = score(said.score);
  bare_.score.scale = numbers.scale;
  bare_.score.softcap = numbers.softcap;
  bare_.mask = mask(said.mask);
  bare_.weighting = weighting(said.weighting);
  bare_.weighting.temperature = numbers.temperature;
  bare_.weighting.dropout = numbers.dropout;
  hard_ = bare_.weighting.def->hard;

  const std::vector<MaskTerm>& terms = bare_.mask.terms;
  for (const std::string& name : names_) {
    if (name == "bias") {
      places_.push_back(Place::bias);
    } else if (name == "distance_bias") {
      places_.push_back(Place::distance_bias);
    } else if (declares(bare_.score.def->parameters, name)) {
      places_.push_back(Place::score);
    } else if (std::any_of(terms.begin(), terms.end(), [&](const MaskTerm& term) {
                 return declares(term.def->parameters, name);
               })) {
      places_.push_back(Place::mask);
    } else if (declares(bare_.weighting.def->parameters, name)) {
      places_.push_back(Place::weighting);
    } else {
      std::string known;
      list(bare_.score.def->parameters, known);
      for (const MaskTerm& term : terms) list(term.def->parameters, known);
      list(bare_.weighting.def->parameters, known);
      throw Error("attend", "this choice takes no parameter " + name + "; it takes " + known +
                                "bias?, distance_bias?");
    }
  }
}

Attention Choice::with(const std::vector<Tensor>& parameters, uint64_t seed) const {
  if (parameters.size() != names_.size()) {
    throw Error("attend", std::to_string(parameters.size()) + " parameters, expected " +
                              std::to_string(names_.size()));
  }
  Attention a = bare_;
  a.weighting.seed = seed;
  for (size_t i = 0; i < names_.size(); ++i) {
    switch (places_[i]) {
      case Place::score:
        a.score.parameters[names_[i]] = parameters[i];
        break;
      case Place::mask:
        for (MaskTerm& term : a.mask.terms) {
          if (declares(term.def->parameters, names_[i])) term.parameters[names_[i]] = parameters[i];
        }
        break;
      case Place::weighting:
        a.weighting.parameters[names_[i]] = parameters[i];
        break;
      case Place::bias:
      case Place::distance_bias:
        a.score.bias = Bias{parameters[i], places_[i] == Place::distance_bias};
        break;
    }
  }
  return a;
}

}  // namespace fovea::python
