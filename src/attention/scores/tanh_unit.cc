#include "attention/def.h"
#include "attention/layout.h"

namespace fovea {

// One scalar a region y (the key), given the context C (the query): additive with A=1 and u=1.
extern const ScoreDef score_tanh_unit = {
    .name = "tanh_unit",
    .formula = "tanh(w_y·k + w_c·q)",
    .parameters = {{"w_y", {"Dk"}}, {"w_c", {"Dq"}}},
    .form = Form::additive,
    .queries = [](const Tensor& q,
                  const Tensors& p) { return project(q, p.at("w_c").unsqueeze(0)); },
    .keys = [](const Tensor& k, const Tensors& p) { return project(k, p.at("w_y").unsqueeze(0)); },
    .u = [](const Tensors&) { return Tensor::full({1}, 1.0f); },
    .reference = []<class T>(const Pair<T>& x) -> T {
      return tanh(dot(x.p.at("w_y").data, x.k) + dot(x.p.at("w_c").data, x.q));
    },
};

Score scores::tanh_unit(Tensor w_y, Tensor w_c) {
  return {.def = &score_tanh_unit, .parameters = only_defined({{"w_y", w_y}, {"w_c", w_c}})};
}

}  // namespace fovea
