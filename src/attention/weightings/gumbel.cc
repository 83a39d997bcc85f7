#include "attention/def.h"

namespace fovea {

// Straight-through: the draw of `sample` forward, the gradient of softmax(s + g) backward.
extern const WeightingDef weighting_gumbel = {
    .name = "gumbel",
    .formula = "onehot(argmax(s + g)) forward, softmax(s + g) backward",
    .kind = WeightingKind::gumbel,
    .hard = true,
    .reference =
        []<class T>(const Row<T>& row) {
          std::vector<T> noisy, soft(row.scores.size());
          for (size_t j = 0; j < row.scores.size(); ++j)
            noisy.push_back(row.scores[j] + row.gumbel[j]);
          softmax<T>(noisy, soft);
          onehot<T>(index_of_max(values_of<T>(noisy)), row.weights);
          for (size_t j = 0; j < soft.size(); ++j) row.weights[j] += soft[j] - value_of(soft[j]);
        },
};

Weighting weightings::gumbel(uint64_t seed, float temperature) {
  return {.def = &weighting_gumbel, .temperature = temperature, .seed = seed};
}

}  // namespace fovea
