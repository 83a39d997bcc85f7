#include "attention/def.h"

// A weighting with a number of its own, in one file: α-entmax (Peters, Niculae and Martins 2019),
// softmax towards α = 1, sparsemax at α = 2. With z = (α−1)(s − max s), τ lies in [−1, 0].
namespace fovea {
namespace {

// max(x, 0)^power; NaN stays
template <Number T>
T raised(const T& x, double power) {
  return value_of(x) <= 0 ? T(0) : exp(log(x) * power);
}

// Σ_j max(z_j − τ, 0)^power
template <Number T, class Z>
T sum_above(std::span<const Z> z, const T& tau, double power) {
  T sum = 0;
  for (const Z& x : z) sum += raised(T(x - tau), power);
  return sum;
}

}  // namespace

extern const WeightingDef weighting_entmax = {
    .name = "entmax",
    .formula = "max((α−1)s_j − τ, 0)^(1/(α−1)), Σ = 1",
    .numbers =
        {{.name = "alpha?", .example = 1.7, .least = 1.01, .whole = false, .otherwise = 1.5}},
    .reference =
        []<class T>(const Row<T>& row) {
          const double alpha = row.numbers[0], power = 1 / (alpha - 1);
          const double most = max_value(row.scores);
          std::vector<T> z;
          for (const T& s : row.scores) z.push_back((s - most) * (alpha - 1));
          const std::vector<double> at = values_of<T>(z);
          const std::span<const double> values(at);
          double low = -1, high = 0;
          for (int step = 0; step < 60; ++step) {
            const double middle = (low + high) / 2;
            (sum_above(values, middle, power) > 1 ? low : high) = middle;
          }
          // A step of Newton's changes the value no more, and has the gradient of τ.
          const double slope = -power * sum_above(values, low, power - 1);
          const T tau = low - (sum_above<T, T>(z, T(low), power) - 1) / slope;
          for (size_t j = 0; j < z.size(); ++j) row.weights[j] = raised(T(z[j] - tau), power);
        },
};

}  // namespace fovea
