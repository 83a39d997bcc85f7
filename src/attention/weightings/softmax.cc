#include "attention/def.h"

namespace fovea {

extern const WeightingDef weighting_softmax = {
    .name = "softmax",
    .formula = "exp(s_j) / Σ exp(s)",
    .kind = WeightingKind::softmax,
    .reference = []<class T>(const Row<T>& row) { softmax(row.scores, row.weights); },
};

}  // namespace fovea
