#include <algorithm>
#include <cmath>

#include "explain/rows.h"

namespace fovea::explain {

Tensor repeated(const Tensor& x, int64_t rows) {
  Shape shape = x.shape();
  shape.insert(shape.begin(), rows);
  return x.detach().unsqueeze(0).expand(shape).contiguous();
}

OneEach one_each(const Outputs& outputs) {
  return [outputs](const Tensor& rows, std::span<const int64_t> which) {
    const auto R = static_cast<int64_t>(which.size());
    const Tensor y = outputs(rows);
    if (y.rank() != 2 || y.size(0) != R) {
      throw Error("explain", "outputs gave " + to_string(y.shape()) + " for " + std::to_string(R) +
                                 " rows, expected [" + std::to_string(R) + ", T]");
    }
    const auto wrong = std::find_if(which.begin(), which.end(),
                                    [&](int64_t t) { return t < 0 || t >= y.size(1); });
    if (wrong != which.end()) {
      throw Error("explain", "output " + std::to_string(*wrong) + " is not in 0 … " +
                                 std::to_string(y.size(1) - 1));
    }
    return gather(y, 1, Tensor::from_ids(which, {R, 1})).squeeze(1);
  };
}

Tensor gradient_of_rows(const OneEach& outputs, Tensor rows, std::span<const int64_t> which) {
  const Recording on;  // whoever asks, and whatever is off there
  rows = rows.detach();
  rows.set_requires_grad();
  const std::vector<Tensor> inputs{rows};
  return gradients(sum(outputs(rows, which)), Tensor::scalar(1.0f), inputs)[0];
}

void each_gradient(const Outputs& outputs, const Tensor& x, std::span<const int64_t> which,
                   const std::function<void(size_t, const Tensor&)>& visit, const Effort& effort) {
  each_gradient(one_each(outputs), x, which, visit, effort);
}

void each_gradient(const OneEach& outputs, const Tensor& x, std::span<const int64_t> which,
                   const std::function<void(size_t, const Tensor&)>& visit, const Effort& effort) {
  const auto at_once = static_cast<size_t>(std::max<int64_t>(1, effort.rows));
  for (size_t begin = 0; begin < which.size(); begin += at_once) {
    const auto some = which.subspan(begin, std::min(at_once, which.size() - begin));
    const auto R = static_cast<int64_t>(some.size());
    const Tensor d = gradient_of_rows(outputs, repeated(x, R), some);
    for (int64_t r = 0; r < R; ++r) visit(begin + static_cast<size_t>(r), d.select(0, r));
    if (effort.progress) {
      effort.progress(static_cast<double>(begin + some.size()) / static_cast<double>(which.size()));
    }
  }
}

SequentialJacobian sequential_jacobian(const Outputs& outputs, const Tensor& x,
                                       std::span<const int64_t> which, const Effort& effort) {
  return sequential_jacobian(one_each(outputs), x, which, effort);
}

SequentialJacobian sequential_jacobian(const OneEach& outputs, const Tensor& x,
                                       std::span<const int64_t> which, const Effort& effort) {
  if (!x || x.rank() != 2) {
    throw Error("sequential_jacobian",
                "x must be [S,E], found " + (x ? to_string(x.shape()) : "nothing"));
  }
  const auto n = static_cast<int64_t>(which.size());
  SequentialJacobian j{Tensor::zeros({n, x.size(0)}), Tensor::zeros({n, x.size(0)})};
  each_gradient(
      outputs, x, which,
      [&](size_t i, const Tensor& d) {
        const auto row = static_cast<int64_t>(i);
        j.norm.select(0, row).copy_(sqrt(sum(square(d), {-1})));
        j.sum.select(0, row).copy_(sum(d, {-1}));
      },
      effort);
  return j;
}

}  // namespace fovea::explain
