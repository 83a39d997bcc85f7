#include <algorithm>
#include <cmath>

#include "tests/tensor/check.h"

namespace fovea {
namespace {

Case unary(const std::string& name, Tensor (*op)(const Tensor&), double (*f)(double),
           double low = -2.0, double high = 2.0) {
  return {name,
          {{3, 5}},
          [op](const Operands& x) { return op(x[0]); },
          [f](const Arrays& x) { return each(x[0], f); },
          low,
          high};
}

TEST(Elementwise, OneOperand) {
  check(unary("neg", neg, [](double x) { return -x; }));
  check(unary("exp", exp, [](double x) { return std::exp(x); }));
  check(unary(
      "log", log, [](double x) { return std::log(x); }, 0.1, 4.0));
  check(unary("tanh", tanh, [](double x) { return std::tanh(x); }));
  check(unary("sigmoid", sigmoid, [](double x) { return 1.0 / (1.0 + std::exp(-x)); }));
  check(unary("relu", relu, [](double x) { return std::max(x, 0.0); }));
  check(unary("gelu", gelu, [](double x) { return 0.5 * x * std::erfc(-x * M_SQRT1_2); }));
  check(unary("gelu_tanh", gelu_tanh, [](double x) {
    return 0.5 * x * (1.0 + std::tanh(std::sqrt(M_2_PI) * (x + 0.044715 * x * x * x)));
  }));
  check(unary("silu", silu, [](double x) { return x / (1.0 + std::exp(-x)); }));
  check(unary(
      "sqrt", sqrt, [](double x) { return std::sqrt(x); }, 0.1, 4.0));
  check(unary("square", square, [](double x) { return x * x; }));
  check(unary("abs", abs, [](double x) { return std::abs(x); }));
  check({"elu",
         {{17}},
         [](const Operands& x) { return elu(x[0], 0.7f); },
         [](const Arrays& x) {
           return each(x[0], [](double e) { return e > 0 ? e : double(0.7f) * std::expm1(e); });
         }});
  check({"clamp",
         {{17}},
         [](const Operands& x) { return clamp(x[0], -0.9f, 1.1f); },
         [](const Arrays& x) {
           return each(x[0], [](double e) { return std::clamp(e, double(-0.9f), double(1.1f)); });
         }});
  for (const float p : {2.0f, 0.5f, -1.5f, 3.0f}) {
    check({"pow",
           {{9}},
           [p](const Operands& x) { return pow(x[0], p); },
           [p](const Arrays& x) { return each(x[0], [p](double e) { return std::pow(e, p); }); },
           0.2,
           2.0});
  }
}

TEST(Elementwise, TwoOperandsBroadcast) {
  struct Two {
    std::string name;
    Tensor (*op)(const Tensor&, const Tensor&);
    double (*f)(double, double);
    double low = -2.0;
  };
  const Two all[] = {{"add", add, [](double a, double b) { return a + b; }},
                     {"sub", sub, [](double a, double b) { return a - b; }},
                     {"mul", mul, [](double a, double b) { return a * b; }},
                     {"div", div, [](double a, double b) { return a / b; }, 0.3},
                     {"maximum", maximum, [](double a, double b) { return std::max(a, b); }},
                     {"minimum", minimum, [](double a, double b) { return std::min(a, b); }},
                     {"pow", pow, [](double a, double b) { return std::pow(a, b); }, 0.3}};
  const std::vector<std::vector<Shape>> shapes = {
      {{3, 4}, {3, 4}}, {{2, 3, 4}, {4}}, {{3, 1}, {1, 4}}, {{}, {2, 3}}, {{2, 1, 3}, {4, 1}}};
  for (const Two& two : all) {
    for (const auto& s : shapes) {
      check({two.name, s, [&](const Operands& x) { return two.op(x[0], x[1]); },
             [&](const Arrays& x) { return zip(x[0], x[1], two.f); }, two.low, 2.0});
    }
  }
}

TEST(Elementwise, Numbers) {
  check({"all",
         {{5}},
         [](const Operands& x) {
           return 2.0f - ((x[0] + 1.5f) * 3.0f - 0.25f) / 4.0f + 1.0f / (3.0f + x[0]) +
                  (-x[0]) * 0.5f;
         },
         [](const Arrays& x) {
           return each(x[0], [](double e) {
             return 2.0 - ((e + 1.5) * 3.0 - 0.25) / 4.0 + 1.0 / (3.0 + e) - 0.5 * e;
           });
         }});
}

TEST(Elementwise, Where) {
  const uint8_t bits[] = {1, 0, 0, 1};
  const Tensor cond = Tensor::from_bools(bits, {4});
  check({"where",
         {{3, 4}, {4}},
         [&](const Operands& x) { return where(cond, x[0], x[1]); },
         [&](const Arrays& x) {
           Array y = zip(x[0], x[1], [](double a, double) { return a; });
           for (int64_t i = 0; i < y.size(); ++i) {
             if (bits[i % 4] == 0) y.v[i] = x[1].v[i % 4];
           }
           return y;
         }});
}

TEST(Elementwise, WhereDoesNotReadTheOther) {
  const uint8_t bits[] = {1, 0};
  const float nan = std::nanf("");
  Tensor a = Tensor::from({1, nan}, {2}), b = Tensor::from({nan, 2}, {2});
  a.set_requires_grad();
  b.set_requires_grad();
  const Tensor y = where(Tensor::from_bools(bits, {2}), a, b);
  EXPECT_EQ(y.to_vector(), (std::vector<float>{1, 2}));
  y.backward(Tensor::from({nan, 5}, {2}));
  EXPECT_EQ(a.grad().to_vector()[1], 0.0f);
  EXPECT_EQ(b.grad().to_vector(), (std::vector<float>{0, 5}));
}

TEST(Elementwise, TiesShareTheGradient) {
  Tensor a = Tensor::from({1, 2}, {2}), b = Tensor::from({1, 1}, {2});
  a.set_requires_grad();
  b.set_requires_grad();
  sum(maximum(a, b)).backward();
  EXPECT_EQ(a.grad().to_vector(), (std::vector<float>{0.5f, 1}));
  EXPECT_EQ(b.grad().to_vector(), (std::vector<float>{0.5f, 0}));
}

TEST(Elementwise, Comparisons) {
  const Tensor a = Tensor::from({1, 2, 3}, {3}), b = Tensor::from({2}, {1});
  const auto bools = [](const Tensor& t) { return t.to(DType::i64).to_ids(); };
  using Ids = std::vector<int64_t>;
  EXPECT_EQ(bools(less(a, b)), (Ids{1, 0, 0}));
  EXPECT_EQ(bools(less_equal(a, b)), (Ids{1, 1, 0}));
  EXPECT_EQ(bools(greater(a, b)), (Ids{0, 0, 1}));
  EXPECT_EQ(bools(greater_equal(a, b)), (Ids{0, 1, 1}));
  EXPECT_EQ(bools(equal(a, b)), (Ids{0, 1, 0}));
  EXPECT_EQ(bools(not_equal(a, b)), (Ids{1, 0, 1}));
  const int64_t big[] = {(int64_t{1} << 60) + 1, 5}, other[] = {int64_t{1} << 60, 5};
  EXPECT_EQ(bools(equal(Tensor::from_ids(big, {2}), Tensor::from_ids(other, {2}))), (Ids{0, 1}));
  EXPECT_EQ(bools(greater(Tensor::from_ids(big, {2}), Tensor::from_ids(other, {2}))), (Ids{1, 0}));
  EXPECT_EQ(less(a, b).dtype(), DType::boolean);
}

TEST(Elementwise, Empty) {
  Tensor a = Tensor::zeros({0, 3}).set_requires_grad(), b = Tensor::zeros({3}).set_requires_grad();
  const Tensor y = tanh(a * b + 1.0f);
  EXPECT_EQ(y.shape(), (Shape{0, 3}));
  y.backward(Tensor::zeros({0, 3}));
  EXPECT_EQ(b.grad().to_vector(), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(a.grad().shape(), (Shape{0, 3}));
}

TEST(Elementwise, Errors) {
  const Tensor a = Tensor::zeros({2, 3}), b = Tensor::zeros({4}), ids = Tensor::arange(3);
  EXPECT_EQ(error_of([&] { add(a, b); }), "[add] a is [2, 3], b is [4]: sizes must be equal or 1");
  EXPECT_EQ(error_of([&] { mul(a, ids); }), "[mul] b is i64, expected f32");
  EXPECT_EQ(error_of([&] { exp(Tensor()); }), "[exp] x is undefined");
  EXPECT_EQ(error_of([&] { less(a, ids); }), "[less] b is i64, expected f32");
  EXPECT_EQ(error_of([&] { where(a, a, a); }), "[where] cond is f32, expected bool");
}

}  // namespace
}  // namespace fovea
