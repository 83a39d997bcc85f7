#include "tests/tensor/check.h"

namespace fovea {
namespace {

Array joined(const Arrays& x, int dim) {
  Shape shape = x[0].shape;
  shape[dim] = 0;
  for (const Array& a : x) shape[dim] += a.shape[dim];
  Array y(shape);
  int64_t start = 0;
  for (const Array& a : x) {
    for (int64_t i = 0; i < a.size(); ++i) {
      auto at = a.index(i);
      at[dim] += start;
      y(at) = a.v[i];
    }
    start += a.shape[dim];
  }
  return y;
}

TEST(Shapes, Joining) {
  for (const int dim : {0, 1}) {
    Shape other{2, 3};
    other[dim] = 4;
    check({"concatenate",
           {{2, 3}, other, {2, 3}},
           [dim](const Operands& x) { return concatenate(x, dim - 2); },
           [dim](const Arrays& x) { return joined(x, dim); }});
  }
  check({"stack",
         {{2, 3}, {2, 3}},
         [](const Operands& x) { return stack(x, 1); },
         [](const Arrays& x) {
           Arrays y = x;
           for (Array& a : y) a.shape = {2, 1, 3};
           return joined(y, 1);
         }});
  check({"pad",
         {{2, 3}},
         [](const Operands& x) { return pad(x[0], 1, 2, 1, 0.5f); },
         [](const Arrays& x) {
           return joined({Array({2, 2}, 0.5), x[0], Array({2, 1}, 0.5)}, 1);
         }});
}

TEST(Shapes, SplitAndUnbind) {
  check({"split",
         {{2, 6}},
         [](const Operands& x) {
           const auto p = split(x[0], {1, 2, 3}, 1);
           return concatenate({p[2], p[0] * p[0], p[1]}, 1);
         },
         [](const Arrays& x) {
           Array y({2, 6});
           const int64_t from[] = {3, 4, 5, 0, 1, 2};
           for (int64_t i = 0; i < 12; ++i) {
             const double e = x[0].v[i / 6 * 6 + from[i % 6]];
             y.v[i] = i % 6 == 3 ? e * e : e;
           }
           return y;
         }});
  check({"unbind, one part unused",
         {{3, 2}},
         [](const Operands& x) {
           const auto p = unbind(x[0], 0);
           return p[0] * p[2];
         },
         [](const Arrays& x) {
           Array y({2});
           for (int64_t i = 0; i < 2; ++i) y.v[i] = x[0].v[i] * x[0].v[4 + i];
           return y;
         }});
  EXPECT_EQ(split(Tensor::zeros({0, 2}), {0, 0}, 0).size(), 2u);
}

TEST(Shapes, SplitServesSeveralPasses) {
  Tensor x = Tensor::from({1, 2, 3, 4}, {4}).set_requires_grad();
  const auto parts = split(x, {2, 2}, 0);
  const Tensor y = parts[0] * parts[1];
  const std::vector<Tensor> inputs{x};
  for (const float start : {1.0f, 10.0f}) {
    const auto g = gradients(y, Tensor::full({2}, start), inputs);
    EXPECT_EQ(g[0].to_vector(), (std::vector<float>{3 * start, 4 * start, 1 * start, 2 * start}));
  }
  sum(y).backward();
  EXPECT_EQ(x.grad().to_vector(), (std::vector<float>{3, 4, 1, 2}));
}

TEST(Shapes, JoiningIds) {
  EXPECT_EQ(concatenate({Tensor::arange(2), Tensor::arange(3)}, 0).to_ids(),
            (std::vector<int64_t>{0, 1, 0, 1, 2}));
}

TEST(Shapes, Errors) {
  const Tensor a = Tensor::zeros({2, 3}), b = Tensor::zeros({2, 4});
  EXPECT_EQ(error_of([&] {
              concatenate({a, b}, 0);
            }),
            "[concatenate] part 1 is [2, 4], part 0 is [2, 3]: they may differ along 0 alone");
  EXPECT_EQ(error_of([&] { concatenate({}, 0); }), "[concatenate] no parts");
  EXPECT_EQ(error_of([&] {
              split(a, {1, 1}, 1);
            }),
            "[split] sizes [1, 1] do not add up to dimension 1 of [2, 3]");
  EXPECT_EQ(error_of([&] { pad(a, 0, -1, 0); }), "[pad] margins -1 and 0 must not be negative");
}

}  // namespace
}  // namespace fovea
