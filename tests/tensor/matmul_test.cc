#include "tests/tensor/check.h"

namespace fovea {
namespace {

Array product(const Array& a, const Array& b) {
  const int64_t M = a.shape.end()[-2], K = a.shape.back(), N = b.shape.back();
  const auto lead = [](const Array& x) { return Array(Shape(x.shape.begin(), x.shape.end() - 2)); };
  Shape shape = zip(lead(a), lead(b), [](double, double) { return 0.0; }).shape;
  shape.push_back(M);
  shape.push_back(N);
  Array c(shape);
  for (int64_t i = 0; i < c.size(); ++i) {
    auto at = c.index(i), ai = at, bi = at;
    for (int64_t k = 0; k < K; ++k) {
      ai.back() = k;
      bi[bi.size() - 2] = k;
      c.v[i] += broadcast_at(a, ai) * broadcast_at(b, bi);
    }
  }
  return c;
}

TEST(Matmul, BatchesBroadcast) {
  const std::vector<std::vector<Shape>> all = {
      {{3, 4}, {4, 5}},          {{2, 3, 4}, {4, 5}}, {{2, 3, 4}, {2, 4, 5}}, {{3, 4}, {2, 4, 5}},
      {{2, 1, 3, 4}, {3, 4, 2}}, {{1, 1}, {1, 1}},    {{1, 4}, {4, 1}}};
  for (const auto& shapes : all) {
    check({"matmul " + to_string(shapes[0]) + to_string(shapes[1]), shapes,
           [](const Operands& x) { return matmul(x[0], x[1]); },
           [](const Arrays& x) { return product(x[0], x[1]); }});
  }
}

// x·Wᵀ + b
TEST(Linear, IsAProductAndASum) {
  for (const Shape& x : std::vector<Shape>{{3, 4}, {4}, {2, 3, 4}, {600, 4}}) {
    const auto formula = [](const Arrays& a, const Array* bias) {
      const int64_t I = a[1].shape[1], O = a[1].shape[0];
      Shape shape = a[0].shape;
      shape.back() = O;
      Array y(shape);
      for (int64_t i = 0; i < y.size(); ++i) {
        for (int64_t k = 0; k < I; ++k) y.v[i] += a[0].v[i / O * I + k] * a[1].v[i % O * I + k];
        if (bias != nullptr) y.v[i] += bias->v[i % O];
      }
      return y;
    };
    check({"linear " + to_string(x),
           {x, {5, 4}, {5}},
           [](const Operands& t) { return linear(t[0], t[1], t[2]); },
           [&](const Arrays& a) { return formula(a, &a[2]); }});
    check({"linear without bias " + to_string(x),
           {x, {5, 4}},
           [](const Operands& t) { return linear(t[0], t[1]); },
           [&](const Arrays& a) { return formula(a, nullptr); }});
  }
}

TEST(Matmul, TransposedViews) {
  const Tensor a = Tensor::randn({40, 30}, 1), b = Tensor::randn({50, 40}, 2);
  const auto dense = matmul(a.transpose(0, 1).clone(), b.transpose(0, 1).clone()).to_vector();
  const auto views = matmul(a.transpose(0, 1), b.transpose(0, 1)).to_vector();
  for (size_t i = 0; i < dense.size(); ++i) ASSERT_NEAR(dense[i], views[i], 1e-4);
}

TEST(Matmul, Empty) {
  EXPECT_EQ(matmul(Tensor::zeros({0, 3}), Tensor::zeros({3, 2})).shape(), (Shape{0, 2}));
  EXPECT_EQ(matmul(Tensor::zeros({2, 0}), Tensor::zeros({0, 2})).to_vector(),
            std::vector<float>(4, 0.0f));
  EXPECT_EQ(matmul(Tensor::zeros({0, 2, 3}), Tensor::zeros({3, 2})).shape(), (Shape{0, 2, 2}));
  Tensor a = Tensor::zeros({2, 0}).set_requires_grad();
  sum(matmul(a, Tensor::zeros({0, 2}))).backward();
  EXPECT_EQ(a.grad().shape(), (Shape{2, 0}));
}

TEST(Matmul, Errors) {
  EXPECT_EQ(error_of([] {
              matmul(Tensor::zeros({2, 3}), Tensor::zeros({4, 5}));
            }),
            "[matmul] inner sizes differ: a is [2, 3], b is [4, 5]");
  EXPECT_EQ(error_of([] {
              matmul(Tensor::zeros({3}), Tensor::zeros({3, 5}));
            }),
            "[matmul] rank must be 2 or more: a is [3], b is [3, 5]");
  EXPECT_EQ(error_of([] {
              matmul(Tensor::zeros({2, 2, 3}), Tensor::zeros({4, 3, 5}));
            }),
            "[matmul] a is [2], b is [4]: sizes must be equal or 1");
}

}  // namespace
}  // namespace fovea
