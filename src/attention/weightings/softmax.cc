#include "attention/def.h"

namespace fovea {

extern const WeightingDef weighting_softmax = {
    .name = "softmax",
    .formula = "exp(s_j) / Σ exp(s), the sum over the sink too",
    .parameters = {{"sink?", {"H"}}},
    .by_default = true,
    .kind = WeightingKind::softmax,
    .sink = [](const Tensors& p) { return p.contains("sink") ? p.at("sink") : Tensor(); },
    .reference = []<class T>(const Row<T>& row) { softmax(row.scores, row.weights); },
};

Weighting weightings::softmax(float temperature, Tensor sink) {
  return {.def = &weighting_softmax,
          .parameters = only_defined({{"sink", sink}}),
          .temperature = temperature};
}

}  // namespace fovea
