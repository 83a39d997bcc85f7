#include "tensor/tape.h"

#include <thread>

#include "tests/tensor/check.h"

namespace fovea {
namespace {

TEST(Tape, GradientsAccumulate) {
  Tensor x = Tensor::from({1, 2}, {2}).set_requires_grad();
  sum(x * x).backward();
  EXPECT_EQ(x.grad().to_vector(), (std::vector<float>{2, 4}));
  sum(x * 3.0f).backward();
  EXPECT_EQ(x.grad().to_vector(), (std::vector<float>{5, 7}));
  x.zero_grad();
  EXPECT_FALSE(x.grad());
}

TEST(Tape, ANodeRunsOnceWithItsGradientsSummed) {
  Tensor x = Tensor::scalar(3.0f).set_requires_grad();
  int runs = 0;
  const Tensor y = record("twice", {x}, x.detach() * 2.0f, [&](const Tensor& dy) {
    ++runs;
    return Grads{dy * 2.0f};
  });
  const Tensor z = y * y + exp(y * 0.0f) * y + y;
  z.backward();
  EXPECT_EQ(runs, 1);
  EXPECT_FLOAT_EQ(x.grad().item(), 2.0f * (2 * 6 + 1 + 1));
}

TEST(Tape, LeavesDoNotShareGradients) {
  Tensor a = Tensor::zeros({3}).set_requires_grad(), b = Tensor::zeros({3}).set_requires_grad();
  const Tensor start = Tensor::full({3}, 1.0f);
  (a + b).backward(start);
  a.grad().fill_(9.0f);
  EXPECT_EQ(b.grad().to_vector(), std::vector<float>(3, 1.0f));
  EXPECT_EQ(start.to_vector(), std::vector<float>(3, 1.0f));
}

TEST(Tape, ALeafItself) {
  Tensor x = Tensor::scalar(1.0f).set_requires_grad();
  x.backward();
  EXPECT_EQ(x.grad().item(), 1.0f);
}

TEST(Tape, DeepChains) {
  Tensor x = Tensor::scalar(1.0f).set_requires_grad();
  Tensor y = x;
  const int deep = x.device() == Device::cpu ? 1000000 : 10000;
  for (int i = 0; i < deep; ++i) y = y + 0.0f;
  y.backward();
  EXPECT_EQ(x.grad().item(), 1.0f);
  for (int i = 0; i < deep; ++i) y = i == 0 ? x * 1.0f : y * 1.0f;
  y = {};  // never run backward: taken down all the same
  // Closures that hold tensors of the tape form a chain too.
  y = x;
  for (int i = 0; i < deep / 3; ++i) {
    y = record("holds", {y}, Tensor::scalar(0.0f), [y](const Tensor& dy) { return Grads{dy}; });
  }
  y = {};
}

TEST(Tape, TheGraphIsFreed) {
  Tensor x = Tensor::scalar(2.0f).set_requires_grad();
  const Tensor y = exp(x);
  y.backward();
  EXPECT_EQ(
      error_of([&] { y.backward(); }),
      "[backward] the graph through exp was freed by an earlier backward(); compute it again");
  const int64_t before = memory_in_use();
  Tensor big = Tensor::zeros({1 << 18}).set_requires_grad();
  const Tensor total = sum(exp(big));
  EXPECT_GT(memory_in_use(), before + (3 << 19));
  total.backward();
  big.zero_grad();
  EXPECT_LT(memory_in_use(), before + (5 << 18));
}

TEST(Tape, WhatIsNeverRunBackwardIsFreedToo) {
  const int64_t before = memory_in_use();
  {
    Tensor x = Tensor::zeros({1 << 16}).set_requires_grad();
    const Tensor y = softmax(exp(tanh(x)) / sigmoid(x));  // each keeps its own output
    EXPECT_GT(memory_in_use(), before);
  }
  EXPECT_EQ(memory_in_use(), before);
}

TEST(Tape, ChangesInPlaceAreNoticed) {
  Tensor x = Tensor::from({1, 2}, {2}).set_requires_grad();
  Tensor w = Tensor::from({3, 4}, {2});
  const Tensor y = sum(x * w);
  w.mul_(2.0f);
  EXPECT_EQ(error_of([&] { y.backward(); }),
            "[backward] a tensor of shape [2] that mul kept was changed in place since");
  const Tensor z = sum(x + w);  // keeps nothing
  w.mul_(2.0f);
  z.backward();
  EXPECT_EQ(x.grad().to_vector(), (std::vector<float>{1, 1}));
}

TEST(Tape, InPlaceOnTheTapeThrows) {
  Tensor x = Tensor::zeros({2}).set_requires_grad();
  EXPECT_EQ(error_of([&] { x.fill_(1.0f); }),
            "[copy_] the tensor is on the tape; change it under NoGrad only");
  {
    const NoGrad off;
    x.fill_(1.0f);
  }
  EXPECT_EQ(x.to_vector(), (std::vector<float>{1, 1}));
}

TEST(Tape, NoGrad) {
  Tensor x = Tensor::zeros({2}).set_requires_grad();
  {
    const NoGrad off;
    EXPECT_FALSE(grad_enabled());
    EXPECT_FALSE(exp(x).requires_grad());
    { const NoGrad again; }
    EXPECT_FALSE(grad_enabled());
    bool elsewhere = false;
    std::thread([&] { elsewhere = grad_enabled(); }).join();
    EXPECT_TRUE(elsewhere);
  }
  EXPECT_TRUE(exp(x).requires_grad());
  EXPECT_FALSE(exp(x.detach()).requires_grad());
}

TEST(Tape, GradientsOfAnything) {
  Tensor a = Tensor::from({1, 2}, {2}).set_requires_grad();
  Tensor b = Tensor::from({3, 4}, {2}).set_requires_grad();
  const Tensor unrelated = Tensor::zeros({5});
  const Tensor m = a * b;
  const Tensor y = m * m;
  const std::vector<Tensor> inputs{a, m, b, unrelated};
  for (int round = 0; round < 2; ++round) {  // the graph stays
    const auto g = gradients(y, Tensor::from({1, 10}, {2}), inputs);
    EXPECT_EQ(g[0].to_vector(), (std::vector<float>{18, 10 * 2 * 8 * 4}));
    EXPECT_EQ(g[1].to_vector(), (std::vector<float>{6, 160}));
    EXPECT_EQ(g[2].to_vector(), (std::vector<float>{6, 320}));
    EXPECT_EQ(g[3].to_vector(), std::vector<float>(5, 0.0f));
  }
  EXPECT_FALSE(a.grad());
  const std::vector<Tensor> self{y};
  EXPECT_EQ(gradients(y, Tensor::from({1, 10}, {2}), self)[0].to_vector(),
            (std::vector<float>{1, 10}));
}

TEST(Tape, GradientsSkipWhatIsNotAskedFor) {
  Tensor a = Tensor::scalar(1.0f).set_requires_grad(), b = Tensor::scalar(2.0f).set_requires_grad();
  int runs = 0;
  const Tensor side = record("side", {b}, b.detach(), [&](const Tensor& dy) {
    ++runs;
    return Grads{dy};
  });
  const Tensor y = a * side;
  const std::vector<Tensor> inputs{a};
  EXPECT_EQ(gradients(y, Tensor::scalar(1.0f), inputs)[0].item(), 2.0f);
  EXPECT_EQ(runs, 0);
}

TEST(Tape, WrongGradientsAreNamed) {
  Tensor x = Tensor::zeros({2}).set_requires_grad();
  const Tensor y =
      record("odd", {x}, Tensor::zeros({3}), [](const Tensor& dy) { return Grads{dy}; });
  EXPECT_EQ(error_of([&] { sum(y).backward(); }),
            "[backward] odd gave a gradient of shape [3] for an input of shape [2]");
  EXPECT_EQ(error_of([&] { y.backward(); }),
            "[backward] a tensor of shape [3] needs a gradient to start from; only one element "
            "starts from 1");
  EXPECT_EQ(error_of([] { Tensor::scalar(1.0f).backward(); }),
            "[backward] nothing this tensor was made of needs a gradient");
  EXPECT_EQ(error_of([&] { Tensor(y).set_requires_grad(); }),
            "[set_requires_grad] only a leaf can be set; this is a result");
  EXPECT_EQ(error_of([] { Tensor::arange(3).set_requires_grad(); }),
            "[set_requires_grad] the tensor is i64, expected f32");
}

TEST(Tape, SeveralThreadsEachTheirOwnGraph) {
  Tensor w = Tensor::randn({16, 16}, 1);
  std::vector<std::vector<float>> grads(4);
  std::vector<std::thread> all;
  for (int t = 0; t < 4; ++t) {
    all.emplace_back([&, t] {
      Tensor x = Tensor::randn({16, 16}, 2).set_requires_grad();
      for (int i = 0; i < 20; ++i) sum(tanh(matmul(x, w))).backward();
      grads[t] = x.grad().to_vector();
    });
  }
  for (auto& t : all) t.join();
  for (int t = 1; t < 4; ++t) EXPECT_EQ(grads[t], grads[0]);
}

}  // namespace
}  // namespace fovea
