#include "nn/score_weights.h"

#include <map>

#include "attention/def.h"

namespace fovea::nn {
namespace {

Init init_of(const ParameterDef& p, const Shape& shape) {
  switch (p.start) {
    case Start::uniform:
      return Init::uniform;
    case Start::one:
      return Init::ones;
    case Start::usual:
      break;
  }
  if (p.name.ends_with('?')) return Init::zeros;
  return shape.size() > 1 ? Init::xavier : Init::uniform;
}

}  // namespace

Tensors score_weights(Weights& weights, const std::string& prefix, const std::string& score,
                      const ScoreWidths& n) {
  std::map<std::string, int64_t> sizes = {
      {"A", n.hidden}, {"A2", n.hidden}, {"Dq", n.query},           {"Dk", n.key},
      {"H", n.heads},  {"H?", n.heads},  {"Dq+Dk", n.query + n.key}};
  if (n.longest > 0) sizes["Lmax"] = n.longest;
  Tensors made;
  for (const ParameterDef& p : fovea::score(score).def->parameters) {
    std::string plain = p.name;
    if (plain.ends_with('?')) plain.pop_back();
    Shape shape;
    for (const std::string& letter : p.shape) {
      const auto size = sizes.find(letter);
      if (size == sizes.end()) {
        throw Error("look", "the score '" + score + "' has a parameter of size " + letter +
                                ", which is not learned here");
      }
      shape.push_back(size->second);
    }
    made[plain] = weights.add(prefix + plain, shape, init_of(p, shape));
  }
  return made;
}

}  // namespace fovea::nn
