#include "kernels/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "fovea/runtime.h"

namespace fovea::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> evaluate(Op op, const std::vector<float>& x, Numbers numbers = {}) {
  std::vector<float> y(x.size(), std::nanf(""));
  const int64_t shape[] = {static_cast<int64_t>(x.size())}, stride[] = {1};
  elementwise(op, shape, {{x.data(), stride}}, {y.data(), stride}, numbers);
  return y;
}

// In units in the last place of the true value, on every instruction set.
void accurate(Op op, double (*f)(double), float from, float to, double units) {
  std::vector<float> x;
  for (int i = 0; i <= 20011; ++i) {
    x.push_back(static_cast<float>(from + (double{to} - from) * i / 20011.0));
  }
  for (const std::string& name : isas()) {
    use_isa(name);
    const std::vector<float> y = evaluate(op, x);
    double worst = 0.0;
    float at = 0.0f;
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = f(x[i]);
      const float near = static_cast<float>(std::abs(expected));
      const double ulp = std::max<double>(std::nextafter(near, kInf) - near,
                                          std::numeric_limits<float>::denorm_min());
      const double error = std::abs(y[i] - expected) / ulp;
      if (!(error <= worst)) {
        worst = error;
        at = x[i];
      }
    }
    EXPECT_LE(worst, units) << name << " at " << at;
  }
  use_isa("");
}

TEST(Elementwise, FunctionsAreAccurate) {
  accurate(
      Op::exp, [](double x) { return std::exp(x); }, -103.0f, 88.7f, 2.0);
  accurate(
      Op::exp, [](double x) { return std::exp(x); }, -1.0f, 1.0f, 2.0);
  accurate(
      Op::log, [](double x) { return std::log(x); }, 1e-30f, 1e-3f, 2.0);
  accurate(
      Op::log, [](double x) { return std::log(x); }, 0.5f, 2.0f, 3.0);
  accurate(
      Op::log, [](double x) { return std::log(x); }, 2.0f, 3e38f, 2.0);
  accurate(
      Op::tanh, [](double x) { return std::tanh(x); }, -12.0f, 12.0f, 4.0);
  accurate(
      Op::tanh, [](double x) { return std::tanh(x); }, -1e-3f, 1e-3f, 3.0);
  accurate(
      Op::sigmoid, [](double x) { return 1.0 / (1.0 + std::exp(-x)); }, -80.0f, 30.0f, 4.0);
  accurate(
      Op::gelu, [](double x) { return x * 0.5 * std::erfc(-x * M_SQRT1_2); }, -3.0f, 9.0f, 12.0);
}

TEST(Elementwise, Limits) {
  const float nan = std::nanf("");
  for (const std::string& name : isas()) {
    use_isa(name);
    SCOPED_TRACE(name);
    const auto e = evaluate(Op::exp, {-kInf, kInf, 0.0f, -200.0f, 200.0f, nan});
    EXPECT_EQ(e[0], 0.0f);
    EXPECT_EQ(e[1], kInf);
    EXPECT_EQ(e[2], 1.0f);
    EXPECT_EQ(e[3], 0.0f);
    EXPECT_EQ(e[4], kInf);
    EXPECT_TRUE(std::isnan(e[5]));
    const auto l = evaluate(Op::log, {0.0f, 1.0f, kInf, -1.0f, nan, 1e-42f});
    EXPECT_EQ(l[0], -kInf);
    EXPECT_EQ(l[1], 0.0f);
    EXPECT_EQ(l[2], kInf);
    EXPECT_TRUE(std::isnan(l[3]));
    EXPECT_TRUE(std::isnan(l[4]));
    EXPECT_NEAR(l[5], std::log(1e-42f), 1e-4);
    const auto t = evaluate(Op::tanh, {-kInf, kInf, 0.0f, nan});
    EXPECT_EQ(t[0], -1.0f);
    EXPECT_EQ(t[1], 1.0f);
    EXPECT_EQ(t[2], 0.0f);
    EXPECT_TRUE(std::isnan(t[3]));
    const auto g = evaluate(Op::gelu, {-kInf, kInf, 0.0f, nan, -100.0f});
    EXPECT_EQ(g[0], 0.0f);
    EXPECT_EQ(g[1], kInf);
    EXPECT_EQ(g[2], 0.0f);
    EXPECT_TRUE(std::isnan(g[3]));
    EXPECT_EQ(g[4], 0.0f);
    for (const Op op : {Op::gelu_tanh, Op::silu}) {
      const auto y = evaluate(op, {-kInf, kInf, 0.0f, nan, -1e30f, 1e30f});
      EXPECT_EQ(y[0], 0.0f);
      EXPECT_EQ(y[1], kInf);
      EXPECT_EQ(y[2], 0.0f);
      EXPECT_TRUE(std::isnan(y[3]));
      EXPECT_EQ(y[4], 0.0f);
      EXPECT_EQ(y[5], 1e30f);
    }
    const auto r = evaluate(Op::relu, {-1.0f, 2.0f, nan});
    EXPECT_EQ(r[0], 0.0f);
    EXPECT_EQ(r[1], 2.0f);
    EXPECT_TRUE(std::isnan(r[2]));
    const auto u = evaluate(Op::elu, {-kInf, kInf, 0.0f}, {2.0f});
    EXPECT_EQ(u[0], -2.0f);
    EXPECT_EQ(u[1], kInf);
    EXPECT_EQ(u[2], 0.0f);
  }
  use_isa("");
}

// Every tail length, and what lies past the end stays.
TEST(Elementwise, LengthsAndTails) {
  for (const std::string& name : isas()) {
    use_isa(name);
    for (int64_t n = 0; n < 70; ++n) {
      std::vector<float> x(n + 1), y(n + 1, -7.0f);
      for (int64_t i = 0; i <= n; ++i) x[i] = 0.1f * static_cast<float>(i);
      const int64_t shape[] = {n}, stride[] = {1};
      elementwise(Op::square, shape, {{x.data(), stride}}, {y.data(), stride});
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(y[i], x[i] * x[i]);
      ASSERT_EQ(y[n], -7.0f);
    }
  }
  use_isa("");
}

// A strided operand gives the bits a dense one gives.
TEST(Elementwise, StridesDoNotMatter) {
  const int64_t n = 3000;
  std::vector<float> dense(n), spread(3 * n);
  for (int64_t i = 0; i < n; ++i) {
    dense[i] = std::sin(static_cast<float>(i));
    spread[3 * i] = dense[i];
  }
  const int64_t shape[] = {n}, one[] = {1}, three[] = {3}, back[] = {-3};
  for (const std::string& name : isas()) {
    use_isa(name);
    std::vector<float> a(n), b(n), c(3 * n);
    elementwise(Op::exp, shape, {{dense.data(), one}}, {a.data(), one});
    elementwise(Op::exp, shape, {{spread.data(), three}}, {b.data(), one});
    EXPECT_EQ(a, b);
    elementwise(Op::exp, shape, {{dense.data(), one}}, {c.data() + 3 * (n - 1), back});
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(c[3 * (n - 1 - i)], a[i]);
  }
  use_isa("");
}

}  // namespace
}  // namespace fovea::kernels
