#include "fovea/runtime.h"
#include "tests/nn/check.h"

namespace fovea::nn {
namespace {

// The same by the operations it stands for.
Tensor plain(const Linear& layer, const Tensor& x) {
  const Tensor y = matmul(x, layer.weight.transpose(0, 1));
  return layer.bias ? y + layer.bias : y;
}

void expect_like_plain(const Linear& layer, const Shape& shape, bool strided) {
  SCOPED_TRACE(to_string(shape) + (strided ? " strided" : ""));
  const Tensor base = leaf(shape, 1);
  const Tensor x = strided ? base.transpose(0, -2) : base;
  const Tensor y = layer(x), z = plain(layer, x);
  expect_near(y, z, "y", 1e-5, 1e-5);
  const Tensor dy = Tensor::randn(y.shape(), 9);
  std::vector<Tensor> inputs{base, layer.weight};
  if (layer.bias) inputs.push_back(layer.bias);
  const auto found = gradients(y, dy, inputs), expected = gradients(z, dy, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    expect_near(found[i], expected[i], "gradient " + std::to_string(i), 1e-5, 2e-4);
  }
}

TEST(Linear, LikeProductAndSum) {
  Weights w(1);
  const Linear with = linear(w, "with", 7, 5);
  const Linear without = linear(w, "without", 7, 5, WithBias::no);
  EXPECT_FALSE(without.bias);
  EXPECT_EQ(w.all().size(), 3u);
  {
    const NoGrad off;
    w.all().at("with.bias").detach().copy_(Tensor::randn({5}, 2));
  }
  for (const Linear& layer : {with, without}) {
    expect_like_plain(layer, {3, 7}, false);
    expect_like_plain(layer, {2, 3, 7}, false);
    expect_like_plain(layer, {2, 3, 7}, true);
    expect_like_plain(layer, {40, 20, 7}, false);  // with Wᵀ copied
    expect_like_plain(layer, {0, 7}, false);
  }
  const Linear wide = linear(w, "wide", 30, 1024);
  expect_like_plain(wide, {600, 30}, false);
  const Linear narrow = linear(w, "narrow", 0, 2);  // the bias alone
  EXPECT_EQ(narrow(Tensor::zeros({2, 2, 0})).to_vector(), std::vector<float>(8, 0.0f));
  Linear part = without;  // some of a wider weight's columns
  part.weight = Tensor::randn({5, 20}, 3).slice(1, 2, 9).set_requires_grad();
  expect_like_plain(part, {3, 7}, false);
  expect_like_plain(part, {600, 7}, false);
  Linear tied = without;  // a weight that is a view
  tied.weight = Tensor::randn({7, 5}, 3).transpose(0, 1).set_requires_grad();
  expect_like_plain(tied, {3, 7}, false);
  expect_like_plain(tied, {600, 7}, false);
}

TEST(Linear, Misuse) {
  Weights w;
  const Linear layer = linear(w, "l", 7, 5);
  EXPECT_EQ(error_of([&] {
              layer(Tensor::zeros({3, 6}));
            }),
            "[linear] x is [3, 6], expected [.., 7]");
  EXPECT_EQ(error_of([&] {
              Linear{layer.weight, Tensor::zeros({4})}(Tensor::zeros({3, 7}));
            }),
            "[linear] bias is [4], weight is [5, 7]");
}

TEST(Embedding, Rows) {
  Weights w(2);
  const Embedding table = embedding(w, "words", 6, 3);
  const int64_t ids[] = {5, 0};
  const Tensor y = table(Tensor::from_ids(ids, {1, 2}));
  EXPECT_EQ(y.shape(), (Shape{1, 2, 3}));
  EXPECT_EQ(y.select(1, 0).reshape({3}).to_vector(), table.table.select(0, 5).to_vector());
  EXPECT_TRUE(w.all().contains("words.weight"));
}

// h_t = tanh(layer(h_{t−1}) + addend_t): gradients by way of the steps against plain ones.
template <class Layer>
std::vector<Tensor> chain(Layer&& layer, const Tensor& h0, const std::vector<Tensor>& addends) {
  std::vector<Tensor> h{h0};
  for (const Tensor& a : addends) h.push_back(tanh(layer(h.back(), a)));
  return h;
}

struct Chain {
  Linear layer;
  Tensor h0;
  std::vector<Tensor> addends;
  std::vector<Tensor> inputs() const {
    std::vector<Tensor> all{h0, layer.weight, addends[0], addends[1]};
    if (layer.bias) all.push_back(layer.bias);
    return all;
  }
};

Chain make_chain(int64_t batch, bool with_bias) {
  Chain c;
  c.layer.weight = (Tensor::randn({6, 6}, 3) * 0.3f).set_requires_grad();
  if (with_bias) c.layer.bias = leaf({6}, 4);
  c.h0 = leaf({batch, 6}, 5);
  for (int t = 0; t < 5; ++t) c.addends.push_back(leaf({batch, 6}, 6 + t));
  return c;
}

Tensor loss_of(const std::vector<Tensor>& h) {
  return sum(concatenate({h[2], h.back()}, 0) * Tensor::randn({2 * h[0].size(0), 6}, 99));
}

TEST(SteppedLinear, GradientsAreThoseOfLinear) {
  for (const int64_t batch : {1, 3, 20}) {
    for (const bool with_bias : {false, true}) {
      SCOPED_TRACE(batch);
      const Chain c = make_chain(batch, with_bias);
      SteppedLinear steps(c.layer);
      const Tensor found = loss_of(chain(steps, c.h0, c.addends));
      const Tensor expected = loss_of(
          chain([&](const Tensor& x, const Tensor& a) { return c.layer(x) + a; }, c.h0, c.addends));
      EXPECT_NEAR(found.item(), expected.item(), 1e-4);
      const Tensor one = Tensor::scalar(1.0f);
      const auto inputs = c.inputs();
      const auto expected_d = gradients(expected, one, inputs);
      const int64_t held = memory_in_use();
      for (int pass = 0; pass < 2; ++pass) {  // the graph stays, and so do its answers
        const auto d = gradients(found, one, inputs);
        for (size_t i = 0; i < d.size(); ++i) {
          expect_near(d[i], expected_d[i], "gradient " + std::to_string(i), 1e-4, 1e-5);
        }
      }
      EXPECT_EQ(memory_in_use(), held);
      gradients(found, one, std::vector<Tensor>{c.h0});  // nobody takes dW
      EXPECT_EQ(memory_in_use(), held);
      found.backward();
      expect_near(c.layer.weight.grad(), expected_d[1], "dW", 1e-4, 1e-5);
    }
  }
}

TEST(SteppedLinear, OnlyWhatLearns) {
  Chain c = make_chain(2, true);
  c.layer.weight.set_requires_grad(false);
  SteppedLinear steps(c.layer);
  loss_of(chain(steps, c.h0, c.addends)).backward();
  EXPECT_FALSE(c.layer.weight.grad());
  EXPECT_TRUE(c.layer.bias.grad());
  EXPECT_TRUE(c.h0.grad());

  c.layer.bias.set_requires_grad(false);
  SteppedLinear fixed(c.layer);
  EXPECT_TRUE(fixed(c.h0).requires_grad());
  EXPECT_FALSE(fixed(c.h0.detach()).requires_grad());
  c.layer.weight.set_requires_grad();
  SteppedLinear silent(c.layer);
  {
    const NoGrad off;
    EXPECT_FALSE(silent(c.h0).requires_grad());
  }
  EXPECT_TRUE(silent(c.h0.detach()).requires_grad());  // recorded from here on
}

TEST(SteppedLinear, SeesAChangedWeight) {
  const NoGrad off;
  Chain c = make_chain(32, false);
  SteppedLinear steps(c.layer);
  for (int i = 0; i < 3; ++i) steps(c.h0);
  c.layer.weight.detach().mul_(2.0f);
  expect_near(steps(c.h0), c.layer(c.h0), "y", 1e-5, 1e-5);
}

TEST(SteppedLinear, Misuse) {
  Weights w;
  SteppedLinear steps(linear(w, "l", 7, 5));
  EXPECT_EQ(error_of([&] {
              steps(Tensor::zeros({2, 3, 7}));
            }),
            "[stepped linear] x is [2, 3, 7], expected [B, I]");
  EXPECT_EQ(error_of([&] {
              steps(Tensor::zeros({3, 7}), Tensor::zeros({3, 7}));
            }),
            "[stepped linear] addend is [3, 7], expected [3, 5]");
}

TEST(Linear, SameAtAnyThreadCount) {
  const int before = threads();
  Weights w(8);
  const Linear layer = linear(w, "l", 96, 300);
  const Tensor x = Tensor::randn({700, 96}, 1), row = Tensor::randn({1, 96}, 2);
  set_threads(1);
  const auto one = layer(x).to_vector(), one_row = layer(row).to_vector();
  set_threads(3);
  EXPECT_EQ(layer(x).to_vector(), one);
  EXPECT_EQ(layer(row).to_vector(), one_row);
  set_threads(before);
}

}  // namespace
}  // namespace fovea::nn
