#include "attention/def.h"

namespace fovea {

// The Euclidean projection onto the simplex (Martins and Astudillo 2016): τ = (Σ_support s − 1)/n,
// the support being the largest n for which 1 + n·s_(n) > Σ_{≤n} s.
extern const WeightingDef weighting_sparsemax = {
    .name = "sparsemax",
    .formula = "max(s_j − τ, 0), Σ = 1",
    .kind = WeightingKind::sparsemax,
    .reference =
        []<class T>(const Row<T>& row) {
          const std::vector<T> z = sorted_below_max(row.scores);
          T sum = 0, threshold = 0;
          for (size_t n = 1; n <= z.size(); ++n) {
            sum += z[n - 1];
            if (n > 1 && !(1 + n * z[n - 1] > sum)) break;
            threshold = (sum - 1) / n;
          }
          const double top = max_value(row.scores);
          for (size_t j = 0; j < row.scores.size(); ++j) {
            const T above = row.scores[j] - top - threshold;
            row.weights[j] = above < 0 ? T(0) : above;
          }
        },
};

Weighting weightings::sparsemax() { return {.def = &weighting_sparsemax}; }

}  // namespace fovea
