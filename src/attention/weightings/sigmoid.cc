#include "attention/def.h"

namespace fovea {

extern const WeightingDef weighting_sigmoid = {
    .name = "sigmoid",
    .formula = "1 / (1 + exp(−s_j))",
    .kind = WeightingKind::sigmoid,
    .normalised = false,
    .reference =
        []<class T>(const Row<T>& row) {
          for (size_t j = 0; j < row.scores.size(); ++j) row.weights[j] = sigmoid(row.scores[j]);
        },
};

Weighting weightings::sigmoid() { return {.def = &weighting_sigmoid}; }

}  // namespace fovea
