#include "tests/tensor/check.h"

namespace fovea {
namespace {

const std::vector<int64_t> kIds{2, 0, 2, 1, 2, 0};

TEST(Lookup, Rows) {
  check({"embedding",
         {{4, 3}},
         [](const Operands& x) {
           return embedding(x[0], Tensor::from_ids(kIds, {2, 3}));
         },
         [](const Arrays& x) {
           Array y({2, 3, 3});
           for (int64_t i = 0; i < y.size(); ++i) y.v[i] = x[0].v[kIds[i / 3] * 3 + i % 3];
           return y;
         }});
  for (const int dim : {0, 1, 2}) {
    check(
        {"index_select",
         {{3, 4, 5}},
         [dim](const Operands& x) { return index_select(x[0], dim, Tensor::from_ids(kIds, {6})); },
         [dim](const Arrays& x) {
           Shape shape = x[0].shape;
           shape[dim] = 6;
           Array y(shape);
           for (int64_t i = 0; i < y.size(); ++i) {
             auto at = y.index(i);
             at[dim] = kIds[at[dim]];
             y.v[i] = x[0](at);
           }
           return y;
         }});
  }
}

TEST(Lookup, EachElement) {
  check({"gather",
         {{2, 4}},
         [](const Operands& x) {
           return gather(x[0], 1, Tensor::from_ids(kIds, {2, 3}));
         },
         [](const Arrays& x) {
           Array y({2, 3});
           for (int64_t i = 0; i < 6; ++i) y.v[i] = x[0].v[i / 3 * 4 + kIds[i]];
           return y;
         }});
  check({"scatter_add",
         {{3, 2}, {3, 2}},
         [](const Operands& x) {
           return scatter_add(x[0], 0, Tensor::from_ids(kIds, {3, 2}), x[1]);
         },
         [](const Arrays& x) {
           Array y = x[0];
           for (int64_t i = 0; i < 6; ++i) y.v[kIds[i] * 2 + i % 2] += x[1].v[i];
           return y;
         }});
}

TEST(Lookup, Empty) {
  Tensor table = Tensor::zeros({4, 3}).set_requires_grad();
  const Tensor y = embedding(table, Tensor::from_ids({}, {0}));
  EXPECT_EQ(y.shape(), (Shape{0, 3}));
  sum(y).backward();
  EXPECT_EQ(table.grad().to_vector(), std::vector<float>(12, 0.0f));
}

TEST(Lookup, Errors) {
  const Tensor table = Tensor::zeros({3, 2});
  const std::vector<int64_t> bad{0, 3};
  EXPECT_EQ(error_of([&] { embedding(table, Tensor::from_ids(bad, {2})); }),
            "[embedding] id 3 at position 1 is not in 0 … 2");
  EXPECT_EQ(error_of([&] { embedding(table, table); }), "[embedding] ids is f32, expected i64");
  EXPECT_EQ(error_of([&] { gather(table, 0, Tensor::arange(2)); }),
            "[gather] ids is [2], expected x's sizes [3, 2] except along dimension 0");
}

}  // namespace
}  // namespace fovea
