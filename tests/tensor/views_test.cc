#include "tensor/impl.h"
#include "tests/tensor/check.h"

namespace fovea {
namespace {

// y[i] = x[from(i)]
Array picked(const Array& x, const Shape& shape,
             const std::function<std::vector<int64_t>(const std::vector<int64_t>&)>& from) {
  Array y(shape);
  for (int64_t i = 0; i < y.size(); ++i) y.v[i] = x(from(y.index(i)));
  return y;
}
using At = std::vector<int64_t>;

TEST(Views, Gradients) {
  check({"reshape",
         {{3, 4}},
         [](const Operands& x) {
           return x[0].reshape({2, -1});
         },
         [](const Arrays& x) {
           Array y = x[0];
           y.shape = {2, 6};
           return y;
         }});
  check({"transpose",
         {{3, 4, 2}},
         [](const Operands& x) { return x[0].transpose(0, -1); },
         [](const Arrays& x) {
           return picked(x[0], {2, 4, 3}, [](const At& i) { return At{i[2], i[1], i[0]}; });
         }});
  check({"permute",
         {{3, 4, 2}},
         [](const Operands& x) {
           return x[0].permute({2, 0, 1});
         },
         [](const Arrays& x) {
           return picked(x[0], {2, 3, 4}, [](const At& i) { return At{i[1], i[2], i[0]}; });
         }});
  check({"slice",
         {{7, 2}},
         [](const Operands& x) { return x[0].slice(0, 1, 7, 3); },
         [](const Arrays& x) {
           return picked(x[0], {2, 2}, [](const At& i) { return At{1 + 3 * i[0], i[1]}; });
         }});
  check({"slice backwards",
         {{7, 2}},
         [](const Operands& x) { return x[0].slice(0, -1, -8, -2); },
         [](const Arrays& x) {
           return picked(x[0], {4, 2}, [](const At& i) { return At{6 - 2 * i[0], i[1]}; });
         }});
  check({"select",
         {{3, 4}},
         [](const Operands& x) { return x[0].select(1, -2); },
         [](const Arrays& x) {
           return picked(x[0], {3}, [](const At& i) { return At{i[0], 2}; });
         }});
  check({"expand",
         {{3, 1}},
         [](const Operands& x) {
           return x[0].expand({2, 3, 4});
         },
         [](const Arrays& x) {
           return picked(x[0], {2, 3, 4}, [](const At& i) { return At{i[1], 0}; });
         }});
  check({"squeeze",
         {{3, 1}},
         [](const Operands& x) { return x[0].squeeze(1).unsqueeze(0); },
         [](const Arrays& x) {
           Array y = x[0];
           y.shape = {1, 3};
           return y;
         }});
  check({"clone",
         {{3, 2}},
         [](const Operands& x) { return x[0].clone().contiguous(); },
         [](const Arrays& x) { return x[0]; }});
  check({"windows",
         {{6}},
         [](const Operands& x) {
           return x[0].contiguous().as_strided({4, 3}, {1, 1}, 0);
         },
         [](const Arrays& x) {
           return picked(x[0], {4, 3}, [](const At& i) { return At{i[0] + i[1]}; });
         }});
  check({"as_strided, negative and zero",
         {{6}},
         [](const Operands& x) {
           return x[0].contiguous().as_strided({2, 3}, {0, -2}, 5);
         },
         [](const Arrays& x) {
           return picked(x[0], {2, 3}, [](const At& i) { return At{5 - 2 * i[1]}; });
         }});
  check({"view of views",
         {{4, 3}},
         [](const Operands& x) {
           return x[0].contiguous().as_strided({3, 4}, {3, 1}, 0).as_strided({2, 2}, {5, 1}, 1);
         },
         [](const Arrays& x) {
           return picked(x[0], {2, 2}, [](const At& i) {
             const int64_t at = 1 + 5 * i[0] + i[1];
             return At{at / 3, at % 3};
           });
         }});
}

TEST(Views, ShareMemory) {
  Tensor x = Tensor::zeros({2, 3});
  Tensor y = x.transpose(0, 1).select(0, 1);
  y.fill_(5.0f);
  EXPECT_EQ(x.to_vector(), (std::vector<float>{0, 5, 0, 0, 5, 0}));
  EXPECT_EQ(x.version(), y.version());
  EXPECT_GT(x.version(), 0u);
}

TEST(Views, ReshapeCopiesOnlyWhenItMust) {
  const Tensor x = Tensor::randn({2, 3, 4}, 1);
  EXPECT_EQ(x.reshape({6, 4}).impl()->data, x.impl()->data);
  const Tensor heads = Tensor::randn({2, 5, 4 * 3}, 1).reshape({2, 5, 4, 3}).permute({0, 2, 1, 3});
  EXPECT_EQ(heads.reshape({2, 4, 5, 3, 1}).impl()->data, heads.impl()->data);
  EXPECT_NE(heads.reshape({2, 4, 15}).impl()->data, heads.impl()->data);
  EXPECT_EQ(heads.reshape({-1}).to_vector(), heads.to_vector());
  EXPECT_EQ(x.contiguous().impl(), x.impl());
}

TEST(Views, SecondOccurrenceOfAPlaceKeepsItsShare) {
  // Three windows over an expanded scalar: the gradient counts each reading once.
  Tensor x = Tensor::from({2}, {1}).set_requires_grad();
  const Tensor y = x.expand({4}).as_strided({3}, {0}, 0);
  sum(y).backward();
  EXPECT_EQ(x.grad().item(), 3.0f);
}

TEST(Views, InPlace) {
  Tensor x = Tensor::zeros({2, 3});
  x.copy_(Tensor::from({1, 2, 3}, {3})).mul_(2.0f).add_(Tensor::scalar(1.0f), 0.5f);
  EXPECT_EQ(x.to_vector(), (std::vector<float>{2.5f, 4.5f, 6.5f, 2.5f, 4.5f, 6.5f}));
  Tensor t = Tensor::from({1, 2, 3, 4}, {2, 2});
  t.transpose(0, 1).copy_(Tensor::from({5, 6, 7, 8}, {2, 2}));
  EXPECT_EQ(t.to_vector(), (std::vector<float>{5, 7, 6, 8}));
}

TEST(Views, Converting) {
  EXPECT_EQ(Tensor::from({1.9f, -2.9f, 0}, {3}).to(DType::i64).to_ids(),
            (std::vector<int64_t>{1, -2, 0}));
  EXPECT_EQ(Tensor::from({0.5f, 0, -1}, {3}).to(DType::boolean).to(DType::f32).to_vector(),
            (std::vector<float>{1, 0, 1}));
  EXPECT_EQ(Tensor::arange(3).to(DType::f32).to_vector(), (std::vector<float>{0, 1, 2}));
}

TEST(Views, Empty) {
  const Tensor x = Tensor::zeros({0, 4});
  EXPECT_EQ(x.reshape({2, 0, 5}).numel(), 0);
  EXPECT_EQ(x.transpose(0, 1).shape(), (Shape{4, 0}));
  EXPECT_EQ(x.expand({3, 0, 4}).numel(), 0);
  EXPECT_EQ(Tensor::zeros({5}).slice(0, 4, 2).shape(), (Shape{0}));
  Tensor y = Tensor::zeros({5}).set_requires_grad();
  y.slice(0, 4, 2).backward(Tensor::zeros({0}));
  EXPECT_EQ(y.grad().to_vector(), std::vector<float>(5, 0.0f));
  EXPECT_EQ(x.clone().to_vector().size(), 0u);
  EXPECT_EQ(x.as_strided({0, 9}, {1, 1}, 100).numel(), 0);
}

TEST(Views, Errors) {
  const Tensor x = Tensor::zeros({2, 3});
  EXPECT_EQ(error_of([&] {
              x.reshape({4, 2});
            }),
            "[reshape] shape [2, 3] has 6 elements, [4, 2] cannot hold them");
  EXPECT_EQ(error_of([&] { x.transpose(0, 2); }), "[transpose] dimension 2 of a tensor of rank 2");
  EXPECT_EQ(error_of([&] {
              x.permute({0, 0});
            }),
            "[permute] the order must name each of the 2 dimensions once");
  EXPECT_EQ(error_of([&] { x.select(0, 2); }), "[select] index 2 of dimension 0 in shape [2, 3]");
  EXPECT_EQ(error_of([&] {
              x.expand({2, 4});
            }),
            "[expand] shape [2, 3] does not broadcast to [2, 4]");
  EXPECT_EQ(error_of([&] { x.squeeze(0); }), "[squeeze] dimension 0 of [2, 3] is not 1");
  EXPECT_EQ(error_of([&] { x.as_strided({3}, {3}, 0); }),
            "[as_strided] sizes [3], strides [3] and offset 0 leave the tensor's memory");
  EXPECT_EQ(error_of([&] { x.slice(0, 0, 1, 0); }), "[slice] the step is 0");
  EXPECT_EQ(error_of([&] { x.data<int64_t>(); }), "[data] the tensor is f32, expected i64");
  EXPECT_EQ(error_of([&] { x.item(); }), "[item] shape [2, 3] is not one element");
  EXPECT_EQ(error_of([&] {
              x.expand({9, 2, 3}).fill_(1.0f);
            }),
            "[copy_] elements of the tensor share memory: strides [0, 3, 1]");
  EXPECT_EQ(error_of([&] { Tensor::zeros({-1}); }), "[zeros] a size is negative in shape [-1]");
  const int64_t half = int64_t{1} << 32;
  EXPECT_EQ(error_of([&] {
              Tensor::empty({half, half});
            }),
            "[empty] shape [4294967296, 4294967296] has too many elements");
  EXPECT_EQ(error_of([&] {
              Tensor::empty({half, 3, half, half});
            }),
            "[empty] shape [4294967296, 3, 4294967296, 4294967296] has too many elements");
  EXPECT_EQ(Tensor::empty({half, half, 0}).numel(), 0);
  EXPECT_EQ(error_of([] { Tensor().shape(); }), "[shape] the tensor is undefined");
  EXPECT_EQ(error_of([] { Tensor::from({1, 2}, {3}); }), "[from] 2 values for shape [3]");
}

}  // namespace
}  // namespace fovea
