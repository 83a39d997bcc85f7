#include "attention/def.h"

namespace fovea {

extern const WeightingDef weighting_argmax = {
    .name = "argmax",
    .formula = "onehot(argmax s), the first of equals",
    .kind = WeightingKind::argmax,
    .hard = true,
    .reference =
        []<class T>(const Row<T>& row) {
          onehot<T>(index_of_max(values_of(row.scores)), row.weights);
        },
};

Weighting weightings::argmax() { return {.def = &weighting_argmax}; }

}  // namespace fovea
