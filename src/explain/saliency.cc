#include <algorithm>
#include <cmath>
#include <numbers>

#include "explain/rows.h"

namespace fovea::explain {
namespace {

struct Quadrature {
  std::vector<float> places, weights;  // in 0 … 1
};

// Places are the roots of Legendre's polynomial P_n, by Newton's steps from a good guess:
//   n P_n(z) = (2n − 1) z P_{n−1} − (n − 1) P_{n−2},  w = 2 / ((1 − z²) P′_n(z)²)
Quadrature gauss_legendre(int64_t n) {
  Quadrature q;
  for (int64_t i = 1; i <= n; ++i) {
    double z = std::cos(std::numbers::pi * (static_cast<double>(i) - 0.25) /
                        (static_cast<double>(n) + 0.5));
    double slope = 1;
    for (int step = 0; step < 20; ++step) {
      double p = 1, before = 0;
      for (int64_t k = 1; k <= n; ++k) {
        const auto order = static_cast<double>(k);
        const double next = ((2 * order - 1) * z * p - (order - 1) * before) / order;
        before = p, p = next;
      }
      slope = static_cast<double>(n) * (z * p - before) / (z * z - 1);
      z -= p / slope;
    }
    q.places.push_back(static_cast<float>((1 - z) / 2));
    q.weights.push_back(static_cast<float>(1 / ((1 - z * z) * slope * slope)));
  }
  return q;
}

// Σ_i weights_i · ∂y/∂x at row(i).
Tensor mean_gradient(const OneEach& outputs, const std::vector<float>& weights,
                     const std::function<Tensor(int64_t)>& row, int64_t output,
                     const Effort& effort) {
  const auto n = static_cast<int64_t>(weights.size());
  Tensor total;
  for (int64_t begin = 0; begin < n; begin += effort.rows) {
    const int64_t R = std::min(effort.rows, n - begin);
    std::vector<Tensor> rows;
    for (int64_t r = 0; r < R; ++r) rows.push_back(row(begin + r));
    const std::vector<int64_t> which(static_cast<size_t>(R), output);
    const Tensor d = gradient_of_rows(outputs, stack(rows, 0), which);
    Shape column(static_cast<size_t>(d.rank()), 1);
    column[0] = R;
    const Tensor w = Tensor::from(
        std::span(weights).subspan(static_cast<size_t>(begin), static_cast<size_t>(R)), column);
    const Tensor part = sum(d * w, {0});
    total = total ? total + part : part;
    if (effort.progress) {
      effort.progress(static_cast<double>(begin + R) / static_cast<double>(n));
    }
  }
  return total;
}

float range_of(const Tensor& x) {
  const std::vector<float> values = x.to_vector();
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return *high - *low;
}

Attribution smoothed(const OneEach& outputs, const Tensor& x, int64_t output,
                     const SaliencyConfig& c, const Effort& effort) {
  const float deviation = c.noise * range_of(x);
  const auto row = [&](int64_t i) {
    const uint64_t seed = c.seed * 1000003 + static_cast<uint64_t>(i);
    return x + Tensor::randn(x.shape(), seed) * deviation;
  };
  const auto n = static_cast<size_t>(std::max<int64_t>(1, c.draws));
  const std::vector<float> weights(n, 1.0f / static_cast<float>(n));
  return {mean_gradient(outputs, weights, row, output, effort)};
}

std::vector<float> ends_of(const OneEach& outputs, const Tensor& x, const Tensor& from,
                           int64_t output) {
  const NoGrad off;
  const std::vector<int64_t> both{output, output};
  return outputs(stack({x, from}, 0), both).to_vector();
}

Attribution integrated(const OneEach& outputs, const Tensor& x, int64_t output,
                       const SaliencyConfig& c, const Effort& effort) {
  const Tensor from = c.baseline ? c.baseline : Tensor::zeros(x.shape());
  const Tensor way = x - from;
  const std::vector<float> y = ends_of(outputs, x, from, output);
  const double whole = static_cast<double>(y[0]) - static_cast<double>(y[1]);
  Attribution found;
  for (int64_t steps = std::max<int64_t>(1, c.steps);; steps *= 2) {
    const Quadrature q = gauss_legendre(steps);
    const auto row = [&](int64_t i) { return from + way * q.places[static_cast<size_t>(i)]; };
    found.values = way * mean_gradient(outputs, q.weights, row, output, effort);
    const double off = std::abs(static_cast<double>(sum(found.values).item()) - whole);
    found.missing = whole == 0 ? off : off / std::abs(whole);
    if (found.missing <= c.complete || 2 * steps > c.most) return found;
  }
}

}  // namespace

Attribution saliency(const OneEach& outputs, const Tensor& given, int64_t output,
                     const SaliencyConfig& c, const Effort& effort) {
  const Tensor x = given.detach();
  if (c.kind == Saliency::smoothed) return smoothed(outputs, x, output, c, effort);
  if (c.kind == Saliency::integrated) return integrated(outputs, x, output, c, effort);
  const std::vector<int64_t> which{output};
  const Tensor d = gradient_of_rows(outputs, repeated(x, 1), which).select(0, 0);
  return {c.kind == Saliency::plain ? d : x * d};
}

Attribution saliency(const Outputs& outputs, const Tensor& x, int64_t output,
                     const SaliencyConfig& c, const Effort& effort) {
  return saliency(one_each(outputs), x, output, c, effort);
}

Tensor grad_cam(const Tensor& activations, const Tensor& output, Cam cam) {
  if (!activations || activations.rank() != 4 || output.rank() != 1 ||
      output.size(0) != activations.size(0)) {
    throw Error("grad_cam", "activations must be [R,C,Y,X] and the output [R], found " +
                                (activations ? to_string(activations.shape()) : "nothing") +
                                " and " + to_string(output.shape()));
  }
  const std::vector<Tensor> inputs{activations};
  const Tensor d = gradients(sum(output), Tensor::scalar(1.0f), inputs)[0];
  const NoGrad off;
  const Tensor alpha = cam == Cam::mean ? mean(d, {2, 3}, Keep::yes) : d;
  return relu(sum(activations.detach() * alpha, {1}));
}

}  // namespace fovea::explain
