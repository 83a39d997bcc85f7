#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "core/allocator.h"
#include "fovea/ops.h"
#include "fovea/runtime.h"
#include "on_device.h"
#include "tests/errors.h"
#include "tests/tensor/array.h"

namespace fovea {

using Operands = std::vector<Tensor>;

struct Case {
  std::string name;
  std::vector<Shape> shapes;
  std::function<Tensor(const Operands&)> op;
  std::function<Array(const Arrays&)> formula;
  double low = -2.0, high = 2.0;  // inputs are drawn from here
};

inline Tensor draw(const Shape& shape, uint64_t seed, double low, double high) {
  return Tensor::rand(shape, seed) * static_cast<float>(high - low) + static_cast<float>(low);
}

inline Array to_array(const Tensor& t) {
  Array a(t.shape());
  const std::vector<float> v = t.to_vector();
  a.v.assign(v.begin(), v.end());
  return a;
}

// The same values in an awkward layout: dimensions reversed in memory, every other element, last
// dimension backwards.
inline Tensor awkward(const Tensor& t) {
  const int n = t.rank();
  if (n == 0) return t.clone();
  std::vector<int> reversed(n);
  Shape wide(n);
  for (int d = 0; d < n; ++d) {
    reversed[d] = n - 1 - d;
    wide[d] = t.shape()[n - 1 - d] * 2 + 1;
  }
  Tensor view = Tensor::full(wide, std::nanf("")).permute(reversed);
  for (int d = 0; d < n; ++d) view = view.slice(d, 1, wide[n - 1 - d], 2);
  view = view.slice(n - 1, -1, -1 - view.shape()[n - 1] - 1, -1);
  view.copy_(t);
  return view;
}

inline void expect_near(const std::vector<float>& found, const std::vector<double>& expected,
                        double relative, double absolute, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], absolute + relative * std::abs(expected[i]))
        << what << " at " << i;
  }
}

// Σ dy·formula(x) and its slope by central differences, in double.
inline std::vector<std::vector<double>> slopes(const Case& c, Arrays x, const Array& dy) {
  const auto loss = [&] {
    const Array y = c.formula(x);
    double sum = 0.0;
    for (int64_t i = 0; i < y.size(); ++i) sum += y.v[i] * dy.v[i];
    return sum;
  };
  constexpr double kStep = 1e-5;
  std::vector<std::vector<double>> all;
  for (Array& a : x) {
    std::vector<double> slope;
    for (double& e : a.v) {
      const double before = e;
      e = before + kStep;
      const double up = loss();
      e = before - kStep;
      slope.push_back((up - loss()) / (2 * kStep));
      e = before;
    }
    all.push_back(std::move(slope));
  }
  return all;
}

// Values against the formula and gradients against its slope, on every instruction set, dense and
// awkward, in memory full of NaN.
inline void check(const Case& c) {
  SCOPED_TRACE(c.name);
  Operands inputs;
  Arrays arrays;
  for (size_t i = 0; i < c.shapes.size(); ++i) {
    inputs.push_back(draw(c.shapes[i], 100 + i, c.low, c.high));
    arrays.push_back(to_array(inputs.back()));
  }
  const Array y = c.formula(arrays);
  const Tensor dy = draw(y.shape, 7, -1.0, 1.0);
  const auto expected = slopes(c, arrays, to_array(dy));
  poison_memory(true);
  for (const std::string& name : test::tested_isas()) {
    use_isa(name);
    for (const bool strange : {false, true}) {
      SCOPED_TRACE(name + (strange ? " awkward" : " dense"));
      Operands leaves;
      for (const Tensor& t : inputs) {
        leaves.push_back(strange ? awkward(t) : t.clone());
        leaves.back().set_requires_grad();
      }
      const Tensor out = c.op(leaves);
      ASSERT_EQ(out.shape(), y.shape);
      expect_near(out.to_vector(), y.v, 1e-4, 1e-5, "value");
      out.backward(strange ? awkward(dy) : dy);
      for (size_t i = 0; i < leaves.size(); ++i) {
        ASSERT_TRUE(leaves[i].grad()) << i;
        expect_near(leaves[i].grad().to_vector(), expected[i], 1e-3, 2e-5,
                    "gradient of input " + std::to_string(i));
      }
    }
  }
  use_isa("");
  poison_memory(false);
}

using test::error_of;

}  // namespace fovea
