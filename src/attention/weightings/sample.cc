#include "attention/def.h"

namespace fovea {

// Hard attention: one key, drawn by its softmax probability (the Gumbel-max trick). The weights
// have no gradient; learning goes through log_prob().
extern const WeightingDef weighting_sample = {
    .name = "sample",
    .formula = "onehot(argmax(s + g)), g = −log(−log(uniform))",
    .kind = WeightingKind::sample,
    .hard = true,
    .learns_by_log_prob = true,
    .reference =
        []<class T>(const Row<T>& row) {
          std::vector<double> noisy;
          for (size_t j = 0; j < row.scores.size(); ++j)
            noisy.push_back(value_of(row.scores[j]) + row.gumbel[j]);
          onehot<T>(index_of_max(noisy), row.weights);
        },
};

Weighting weightings::sample(uint64_t seed) { return {.def = &weighting_sample, .seed = seed}; }

}  // namespace fovea
