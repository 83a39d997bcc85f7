#include <algorithm>

#include "attention/def.h"

namespace fovea {

// Raw scores. With a dot score this is linear attention, a fast-weight memory W ← W + v kᵀ.
extern const WeightingDef weighting_none = {
    .name = "none",
    .formula = "s_j",
    .kind = WeightingKind::none,
    .normalised = false,
    .reference =
        []<class T>(const Row<T>& row) {
          std::copy(row.scores.begin(), row.scores.end(), row.weights.begin());
        },
};

Weighting weightings::none() { return {.def = &weighting_none}; }

}  // namespace fovea
