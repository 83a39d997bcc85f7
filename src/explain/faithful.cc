#include "fovea/faithful.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "explain/rows.h"

namespace fovea::explain {
namespace {

// Rows of a matrix [T,·], off the tape.
class Rows {
 public:
  explicit Rows(const Tensor& x)
      : values_(x.detach().to_vector()), width_(static_cast<size_t>(x.size(1))) {}
  std::span<const float> operator[](size_t t) const {
    return std::span(values_).subspan(t * width_, width_);
  }

 private:
  std::vector<float> values_;
  size_t width_;
};

Seen seen(const LookAt& look, const models::Intervention& how) {
  const NoGrad off;
  return look(how);
}

// |Σ_e x_se · ∂y_t/∂x_se|: the gradient at the one that an input is, weights held.
Tensor times_input(const Looking& m, const std::vector<int64_t>& which) {
  Tensor found = Tensor::zeros({static_cast<int64_t>(which.size()), m.x.size(0)});
  each_gradient(m.held, m.x, which, [&](size_t t, const Tensor& d) {
    found.select(0, static_cast<int64_t>(t)).copy_(abs(sum(d * m.x.detach(), {-1})));
  });
  return found;
}

Tensor left_out(const Looking& m, const std::vector<int64_t>& which) {
  const Tensor all = occlusion(m.outputs, m.x, m.x.size(0), blank_rows(m.x, m.blank));
  const auto n = static_cast<int64_t>(which.size());
  return abs(index_select(all, 0, Tensor::from_ids(which, {n})));
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::vector<Faithful> faithful(const Looking& m, const FaithfulConfig& c,
                               const Progress& progress) {
  const Seen own = seen(m.look, {});
  const auto T = static_cast<size_t>(own.log_p.size(0));
  const int64_t S = own.weights.size(1);
  if (S < c.fewest) return {};
  const Rows p(exp(own.log_p)), weights(own.weights);
  std::vector<int64_t> which = m.which;
  if (which.empty()) {
    which.resize(T);
    std::iota(which.begin(), which.end(), int64_t{0});
  }
  const Rows gradient(times_input(m, which)), without(left_out(m, which));
  const Seen even = seen(m.look, models::interventions::uniform());
  const Rows even_p(exp(even.log_p)), even_weights(even.weights);
  std::vector<std::vector<double>> shuffled(T);
  for (int64_t i = 0; i < c.permutations; ++i) {
    const uint64_t seed = c.adversary.seed * 1000 + static_cast<uint64_t>(i);
    const Rows other(exp(seen(m.look, models::interventions::permuted(seed)).log_p));
    for (size_t t = 0; t < T; ++t) shuffled[t].push_back(total_variation(p[t], other[t]));
  }
  const Attacked attacked = attack(m.look, c.adversary, progress);
  std::vector<Faithful> all;
  for (size_t t = 0; t < T; ++t) {
    all.push_back(
        {.tau_gradient = kendall_tau(weights[t], gradient[t]),
         .tau_left_out = kendall_tau(weights[t], without[t]),
         .permuted = median(shuffled[t]),
         .uniform = total_variation(p[t], even_p[t]),
         .uniform_distance = jensen_shannon(weights[t], even_weights[t]),
         .adversarial = attacked.distance[t],
         .largest = static_cast<double>(*std::max_element(weights[t].begin(), weights[t].end())),
         .inputs = S});
  }
  return all;
}

}  // namespace fovea::explain
