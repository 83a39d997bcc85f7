#include "attention/layout.h"

#include "attention/expect.h"
#include "core/allocator.h"
#include "fovea/ops.h"
#include "tensor/impl.h"

// Heads are split off a sequence [B,L,H·D] as a view [B,H,L,D], and merged again without a copy.
namespace fovea::tests {
namespace {

constexpr int64_t kB = 2, kH = 4, kL = 19, kD = 8;

Tensor split(const Tensor& x, int64_t heads) {  // [B,L,H·D] → [B,H,L,D]
  return x.reshape({x.size(0), x.size(1), heads, -1}).transpose(1, 2);
}

Tensor sequence(int64_t heads, uint64_t seed) { return Tensor::randn({kB, kL, heads * kD}, seed); }

TEST(Layout, OrderIsThatOfTheMemory) {
  const Tensor x = Tensor::empty({2, 3, 4, 5});
  EXPECT_EQ(memory_order(x), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(memory_order(x.transpose(1, 2)), (std::vector<int>{0, 2, 1, 3}));
  EXPECT_EQ(memory_order(x.permute({2, 0, 1, 3})), (std::vector<int>{1, 2, 0, 3}));
  EXPECT_EQ(memory_order(x.transpose(2, 3)),
            (std::vector<int>{0, 1, 2, 3}));  // the last stays last
  EXPECT_EQ(memory_order(Tensor::empty({2, 1, 4, 5}).expand({2, 3, 4, 5})),
            (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(memory_order(x.slice(1, 0, 1).transpose(0, 1)), (std::vector<int>{0, 1, 2, 3}));
  const Tensor like = empty_in_order_of(x.transpose(1, 2), {2, 4, 3, 7});
  EXPECT_EQ(like.strides(), (Shape{84, 7, 28, 1}));
}

TEST(Layout, ProjectionsKeepIt) {
  Tensor x = split(sequence(kH, 1), kH), w = Tensor::randn({5, kD}, 2);
  Tensor same = x.contiguous(), same_w = w.clone();
  for (Tensor* t : {&x, &w, &same, &same_w}) t->set_requires_grad();
  const Tensor y = project(x, w), expected = matmul(same, same_w.transpose(0, 1));
  EXPECT_EQ(y.strides(), (Shape{kL * kH * 5, 5, kH * 5, 1}));
  expect_near(y.to_vector(), expected.to_vector(), {0, 0}, "y");
  const Tensor d = Tensor::randn(y.shape(), 3);
  y.backward(empty_in_order_of(y, y.shape()).copy_(d));
  expected.backward(d);
  expect_near(x.grad().to_vector(), same.grad().to_vector(), {0, 0}, "dx");
  expect_near(w.grad().to_vector(), same_w.grad().to_vector(), {0, 0}, "dw");
}

class LayoutOf : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Scores, LayoutOf, testing::ValuesIn(families()),
                         [](const auto& test) { return test.param; });

TEST_P(LayoutOf, ContextsAndGradientsLieAsTheirInputs) {
  for (const int64_t Hk : {kH, kH / 2}) {
    const Sizes n{kB, kH, Hk, kL, kL, kD, kD, kD};
    Tensor x_q = sequence(kH, 1), x_k = sequence(Hk, 2), x_v = sequence(Hk, 3);
    for (Tensor* x : {&x_q, &x_k, &x_v}) x->set_requires_grad();
    const Tensor q = split(x_q, kH), k = split(x_k, Hk), v = split(x_v, Hk);
    for (const Mask& mask : {Mask{}, masks::causal()}) {
      const Attended a = attend(q, k, v, {.score = score_for(GetParam(), n), .mask = mask});
      EXPECT_EQ(a.context.strides(), q.strides());
      const Tensor merged = a.context.transpose(1, 2).reshape({kB, kL, kH * kD});
      EXPECT_EQ(merged.impl()->data, a.context.impl()->data);

      const Tensor d = split(Tensor::randn(merged.shape(), 4), kH);
      const std::vector<Tensor> grads = gradients(a.context, d, std::vector{q, k, v});
      EXPECT_EQ(grads[0].strides(), q.strides());
      EXPECT_EQ(grads[1].strides(), k.strides());
      EXPECT_EQ(grads[2].strides(), v.strides());

      Call same = call(n, {.score = score_for(GetParam(), n), .mask = mask});
      same.q = q.detach().contiguous();
      same.k = k.detach().contiguous();
      same.v = v.detach().contiguous();
      same.d_context = d.contiguous();
      const Results expected = results(same, Ask::context);
      expect_near(a.context.to_vector(), expected.at("context"), {0, 0}, "context");
      for (size_t i = 0; i < grads.size(); ++i) {
        const std::string name = std::string("d") + "qkv"[i] + " of context";
        expect_near(grads[i].to_vector(), expected.at(name), {0, 0}, name);
      }
    }
  }
}

// q, k and v as views of one projection [B,L,3,H,D]: read where they are, forward and backward,
// with a bias by distance as without.
TEST(Layout, AFusedProjectionIsReadInPlace) {
  const int64_t B = 2, L = 160, H = 4, D = 32;
  const Tensor projected = Tensor::randn({B, L, 3, H, D}, 1);
  std::vector<Tensor> views, apart;
  for (int i = 0; i < 3; ++i) {
    views.push_back(projected.detach().select(2, i).transpose(1, 2));  // [B,H,L,D]
    apart.push_back(views.back().contiguous());
    EXPECT_EQ(views.back().impl()->data, projected.impl()->data + i * H * D * sizeof(float));
  }
  const Shape together{L * H * D, D, H * D, 1};
  const Tensor d = Tensor::randn({B, H, L, D}, 2);
  struct Peaks {
    int64_t forward, backward;
    Results results;
  };
  const auto run = [&](std::vector<Tensor> x, const Attention& a, const Shape& strides) {
    for (Tensor& t : x) t = t.detach().set_requires_grad();
    const auto peak_of = [](const auto& f) {
      const int64_t before = memory_in_use();
      reset_memory_peak();
      f();
      return memory_peak() - before;
    };
    Peaks peaks;
    Attended out;
    std::vector<Tensor> grads;
    peaks.forward = peak_of([&] { out = attend(x[0], x[1], x[2], a); });
    peaks.backward = peak_of([&] { grads = gradients(out.context, d, x); });
    EXPECT_EQ(out.plan(), Plan::fused);
    EXPECT_EQ(out.context.strides(), strides);
    peaks.results["context"] = out.context.to_vector();
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(grads[i].strides(), strides);
      peaks.results[std::string("d") + "qkv"[i]] = grads[i].to_vector();
    }
    return peaks;
  };
  Attention alibi;
  alibi.score.bias = biases::alibi(Tensor::from({0.5f, 0.25f, 0.125f, 0.0625f}, {4}), L, L);
  for (const Attention& a : {Attention{}, Attention{.mask = masks::causal()}, alibi}) {
    const Peaks strided = run(views, a, together), dense = run(apart, a, apart[0].strides());
    EXPECT_LE(strided.forward, dense.forward + 4096);
    EXPECT_LE(strided.backward, dense.backward + 4096);
    expect_same_bits(strided.results, dense.results);
  }
}

TEST(Layout, MergingHeadsTakesNoMemory) {
  const auto taken_by = [](const std::vector<Tensor>& x) {
    const Tensor context = attend(x[0], x[1], x[2]).context;
    const int64_t before = memory_in_use();
    const Tensor merged = context.transpose(1, 2).reshape({1, 512, 512});
    return memory_in_use() - before;
  };
  std::vector<Tensor> together, apart;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    together.push_back(split(Tensor::randn({1, 512, 512}, seed), 8));
    apart.push_back(together.back().contiguous());
  }
  EXPECT_EQ(taken_by(together), 0);
  EXPECT_GE(taken_by(apart), int64_t{4} * 512 * 512);
}

}  // namespace
}  // namespace fovea::tests
