#include <algorithm>
#include <cmath>
#include <functional>

#include "core/threads.h"
#include "on_device.h"
#include "tests/tensor/check.h"

// Same bits at 1, 2 and 4 threads, values and gradients, on every instruction set.
namespace fovea {
namespace {

using Run = std::function<Tensor(const Operands&)>;

void same_bits(const std::string& name, const std::vector<Shape>& shapes, const Run& run) {
  const int before = threads();
  for (const std::string& set : test::tested_isas()) {
    use_isa(set);
    std::vector<std::vector<float>> first;
    for (const int n : {1, 2, 4}) {
      set_threads(n);
      Operands leaves;
      for (size_t i = 0; i < shapes.size(); ++i) {
        leaves.push_back(Tensor::randn(shapes[i], 50 + i).set_requires_grad());
      }
      const Tensor y = run(leaves);
      y.backward(Tensor::randn(y.shape(), 9));
      std::vector<std::vector<float>> found{y.to_vector()};
      for (const Tensor& t : leaves) found.push_back(t.grad().to_vector());
      if (first.empty()) first = found;
      EXPECT_TRUE(first == found) << name << " " << set << " " << n << " threads";
    }
  }
  use_isa("");
  set_threads(before);
}

TEST(Determinism, Elementwise) {
  same_bits("chain", {{200, 1000}, {1000}, {200, 1}}, [](const Operands& x) {
    return gelu(tanh(x[0] * x[1]) + exp(x[2] * 0.1f)) / (1.0f + square(x[1]));
  });
}

TEST(Determinism, Reductions) {
  same_bits("all", {{300, 700}}, [](const Operands& x) { return sum(x[0]); });
  same_bits("rows", {{300, 700}}, [](const Operands& x) { return mean(x[0], {1}); });
  same_bits("columns", {{3000, 70}}, [](const Operands& x) { return sum(x[0], {0}); });
  same_bits("max", {{300, 700}}, [](const Operands& x) { return max(x[0], {0}); });
}

TEST(Determinism, Products) {
  same_bits("matmul", {{300, 200}, {200, 700}},
            [](const Operands& x) { return matmul(x[0], x[1]); });
  same_bits("batched", {{8, 50, 40}, {40, 60}},
            [](const Operands& x) { return matmul(x[0], x[1]); });
  same_bits("broadcast", {{4, 1, 50, 40}, {3, 40, 60}},
            [](const Operands& x) { return matmul(x[0], x[1]); });
}

TEST(Determinism, Rows) {
  same_bits("softmax", {{500, 130}}, [](const Operands& x) { return softmax(x[0]); });
  same_bits("log_softmax", {{500, 130}}, [](const Operands& x) { return log_softmax(x[0], 0); });
  same_bits("layer_norm", {{500, 130}, {130}, {130}},
            [](const Operands& x) { return layer_norm(x[0], x[1], x[2]); });
  same_bits("batch_norm", {{16, 30, 64}, {30}, {30}}, [](const Operands& x) {
    BatchNorm state;
    return batch_norm(x[0], x[1], x[2], state, Mode::train);
  });
  same_bits("dropout", {{500, 130}}, [](const Operands& x) { return dropout(x[0], 0.4f, 3); });
}

TEST(Determinism, Lookups) {
  std::vector<int64_t> ids(5000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i * i % 37);
  const Tensor all = Tensor::from_ids(ids, {5000});
  same_bits("embedding", {{40, 200}}, [&](const Operands& x) { return embedding(x[0], all); });
  same_bits("gather", {{40, 300}}, [&](const Operands& x) {
    return gather(x[0], 0, all.reshape({5000, 1}).expand({5000, 300}));
  });
}

TEST(Determinism, Convolutions) {
  same_bits("conv2d", {{20, 8, 16, 16}, {12, 8, 3, 3}, {12}},
            [](const Operands& x) { return conv2d(x[0], x[1], x[2], {.pad_y = 1, .pad_x = 1}); });
  same_bits("pool", {{20, 8, 16, 16}},
            [](const Operands& x) { return max_pool2d(x[0]) + avg_pool2d(x[0]); });
}

TEST(Random, TensorsDependOnSeedAndPlaceAlone) {
  const int before = threads();
  std::vector<float> first;
  for (const int n : {1, 2, 4}) {
    set_threads(n);
    const auto x = Tensor::randn({100, 999}, 3).to_vector();
    if (first.empty()) first = x;
    EXPECT_EQ(first, x);
  }
  set_threads(before);
  const auto shorter = Tensor::randn({10}, 3).to_vector();
  EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), first.begin()));
  EXPECT_NE(Tensor::randn({10}, 4).to_vector(), shorter);
}

TEST(Random, Moments) {
  const auto x = Tensor::randn({1 << 20}, 11).to_vector();
  double m1 = 0, m2 = 0, m4 = 0;
  for (const double e : x) {
    m1 += e;
    m2 += e * e;
    m4 += e * e * e * e;
  }
  const double n = double(x.size());
  EXPECT_NEAR(m1 / n, 0.0, 6e-3);
  EXPECT_NEAR(m2 / n, 1.0, 9e-3);
  EXPECT_NEAR(m4 / n, 3.0, 6e-2);
  std::vector<int> cells(64, 0);
  for (const float u : Tensor::rand({1 << 18}, 12).to_vector()) {
    ASSERT_TRUE(u >= 0.0f && u < 1.0f);
    ++cells[static_cast<int>(u * 64)];
  }
  double chi = 0.0;
  for (const int c : cells) chi += (c - 4096.0) * (c - 4096.0) / 4096.0;
  EXPECT_NEAR(chi, 63.0, 6 * std::sqrt(126.0));
}

}  // namespace
}  // namespace fovea
