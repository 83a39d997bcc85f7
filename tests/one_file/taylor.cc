#include "attention/def.h"
#include "attention/row_math.h"

// A weighting in one file that runs in vectors: softmax by the first terms of exp's series, which
// are positive everywhere (de Brébisson and Vincent 2016). With f(s) = 1 + s + s²/2, w = f(s)/Σf
// and ds_j = (dw_j − Σ w·dw)·f′(s_j)/Σf, where f′(s) = 1 + s.
namespace fovea {
namespace {

void forward(std::span<const double>, int64_t n, const float* s, float* w) {
  for (int64_t j = 0; j < n; ++j) w[j] = 1.0f + s[j] * (1.0f + 0.5f * s[j]);
  const float factor = 1.0f / row_sum(n, w);
  for (int64_t j = 0; j < n; ++j) w[j] *= factor;
}

void backward(std::span<const double>, int64_t n, const float* s, const float* w, const float* dw,
              float* ds) {
  const float mean = row_dot(n, w, dw);
  const float first = 1.0f + s[0] * (1.0f + 0.5f * s[0]);
  const float factor = w[0] / first;  // 1/Σf
  for (int64_t j = 0; j < n; ++j) ds[j] = (dw[j] - mean) * (1.0f + s[j]) * factor;
}

}  // namespace

extern const WeightingDef weighting_taylor = {
    .name = "taylor",
    .formula = "(1 + s_j + s_j²/2) / Σ (1 + s + s²/2)",
    .reference =
        []<class T>(const Row<T>& row) {
          T sum = 0;
          for (size_t j = 0; j < row.scores.size(); ++j) {
            const T& s = row.scores[j];
            row.weights[j] = 1 + s * (1 + 0.5 * s);
            sum += row.weights[j];
          }
          for (T& w : row.weights) w = w / sum;
        },
    .rows = {forward, backward},
};

}  // namespace fovea
