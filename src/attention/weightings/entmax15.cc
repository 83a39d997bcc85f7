#include "attention/def.h"

namespace fovea {

// Entmax with α = 1.5 (Peters, Niculae and Martins 2019), between softmax and sparsemax. With
// z = s/2: on a support of n, τ = mean z − √((1 − Σ(z − mean)²)/n); the support is the largest n
// with τ ≤ z_(n).
extern const WeightingDef weighting_entmax15 = {
    .name = "entmax15",
    .formula = "max(s_j/2 − τ, 0)², Σ = 1",
    .kind = WeightingKind::entmax15,
    .reference =
        []<class T>(const Row<T>& row) {
          const std::vector<T> s = sorted_below_max(row.scores);
          T sum = 0, squares = 0, threshold = 0;
          for (size_t n = 1; n <= s.size(); ++n) {
            const T z = s[n - 1] / 2;
            sum += z;
            squares += z * z;
            const T mean = sum / n, rest = (1 - (squares - n * mean * mean)) / n;
            if (n > 1 && !(rest > 0 && mean - sqrt(rest) < z)) break;
            threshold = mean - sqrt(rest);
          }
          const double top = max_value(row.scores);
          for (size_t j = 0; j < row.scores.size(); ++j) {
            const T above = (row.scores[j] - top) / 2 - threshold;
            row.weights[j] = above < 0 ? T(0) : above * above;
          }
        },
};

Weighting weightings::entmax15() { return {.def = &weighting_entmax15}; }

}  // namespace fovea
