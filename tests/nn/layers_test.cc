#include "fovea/layers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/allocator.h"
#include "fovea/ops.h"
#include "fovea/runtime.h"
#include "tests/host.h"
#include "tests/nn/check.h"

namespace fovea::nn {
namespace {

std::vector<HeadsConfig> all_heads() {
  const HeadsConfig base{.width = 12, .heads = 6};
  std::vector<HeadsConfig> all{base, base, base, base};
  all[1].key_heads = 2;
  all[2].groups = {linear_heads(6)};
  all[3].key_heads = 3;
  all[3].groups = {
      {.heads = 2, .score = "additive"}, {.heads = 2, .weighting = "sparsemax"}, linear_heads(2)};
  return all;
}

Block block_of(Weights& w, const HeadsConfig& heads, NormOrder order = NormOrder::pre) {
  return block(w, "block", {.heads = heads, .mlp_width = 16, .order = order});
}

// Rows in the order `ids` along dimension 1.
Tensor in_order(const Tensor& x, const std::vector<int64_t>& ids) {
  return index_select(x, 1, Tensor::from_ids(ids, {static_cast<int64_t>(ids.size())}));
}

double distance(const Tensor& a, const Tensor& b) { return max(abs(a - b)).item(); }

TEST(Layers, PermutedInputsPermuteOutputsUnlessThereArePositions) {
  const std::vector<int64_t> order{3, 0, 4, 2, 1};
  const Tensor x = Tensor::randn({2, 5, 12}, 1);
  for (const HeadsConfig& heads : all_heads()) {
    Weights w(3);
    const Block b = block_of(w, heads);
    EXPECT_LT(distance(b(in_order(x, order)), in_order(b(x), order)), 1e-5);
    const Rotary rotary = rotary_positions(0, 5, 2);
    BlockPass placed;
    placed.self.rotary = &rotary;
    EXPECT_GT(distance(b(in_order(x, order), placed), in_order(b(x, placed), order)), 1e-3);
    const Tensor added = sinusoidal_positions(0, 5, 12);
    EXPECT_GT(distance(b(in_order(x, order) + added), in_order(b(x + added), order)), 1e-3);
  }
}

TEST(Layers, RowsThatSeeNoKeyGiveTheBiasAlone) {
  for (const HeadsConfig& config : all_heads()) {
    Weights w(3);
    const MultiHead heads = multi_head(w, "heads", config);
    for (const float rate : {0.0f, 0.5f}) {
      HeadsPass pass;
      pass.mask = masks::lengths(Tensor::from_ids(std::vector<int64_t>{5, 0}, {2}));
      pass.noise.dropout = rate;
      Tensor x = Tensor::randn({2, 5, 12}, 1);
      x.set_requires_grad(true);
      const Tensor y = heads.self(x, pass);
      EXPECT_LT(distance(y.slice(0, 1, 2), heads.out(Tensor::zeros({1, 5, 12}))), 1e-6);
      const std::vector<Tensor> inputs{x};
      for (const float d : gradients(sum(y), Tensor::scalar(1.0f), inputs)[0].to_vector()) {
        EXPECT_TRUE(std::isfinite(d));
      }
    }
  }
}

TEST(Layers, WhatComesLaterChangesNothing) {
  for (const HeadsConfig& heads : all_heads()) {
    Weights w(3);
    const Block b = block_of(w, heads);
    BlockPass pass;
    pass.self.mask = masks::causal();
    const Tensor x = Tensor::randn({2, 9, 12}, 1);
    const auto before = b(x, pass).slice(1, 0, 6).to_vector();
    Tensor later = x.clone();
    later.slice(1, 6, 9).fill_(1e3f);
    EXPECT_EQ(before, b(later, pass).slice(1, 0, 6).to_vector());
  }
}

// One row after another, some at once, and all at once.
TEST(Layers, APastMakesNoDifference) {
  for (const HeadsConfig& heads : all_heads()) {
    Weights w(3);
    const Block b = block_of(w, heads);
    const NoGrad off;
    const Tensor x = Tensor::randn({2, 70, 12}, 1);
    const Rotary all = rotary_positions(0, 70, 2);
    BlockPass whole;
    whole.self.mask = masks::causal();
    whole.self.rotary = &all;
    const Tensor expected = b(x, whole);
    for (const auto& [kept, off_by] : {std::pair{DType::f32, 1e-5}, {DType::bf16, 0.03}}) {
      KeyValues past{.kept = kept};
      for (int64_t t = 0, n = 0; t < 70; t += n) {
        n = t == 0 ? 5 : t == 20 ? 30 : 1;
        const Rotary rotary = rotary_positions(t, n, 2);
        BlockPass step;
        step.self.mask = masks::causal();
        step.self.rotary = &rotary;
        step.self.past = &past;
        EXPECT_LT(distance(b(x.slice(1, t, t + n), step), expected.slice(1, t, t + n)), off_by)
            << t << name_of(kept);
      }
      EXPECT_EQ(past.length, 70);
      if (past.keys) {
        EXPECT_EQ(past.keys.dtype(), kept);
      }
    }
  }
}

TEST(Layers, HeadsAreSplitAndMergedInPlace) {
  Weights w;
  const MultiHead m = multi_head(w, "heads", {.width = 64, .heads = 4});
  const NoGrad off;
  const Tensor x = Tensor::randn({4, 256, 64}, 1);
  const int threads_before = threads();
  set_threads(2);  // each has scratch of its own, on a machine with many cores more than the rows
  m.self(x);
  // The projection, its contexts and the result: nothing is copied in between.
  reset_memory_peak();
  const int64_t before = memory_in_use();
  m.self(x);
  const int64_t rows = 4 * 256 * 64 * 4;
  EXPECT_LT(memory_peak() - before, 5 * rows + rows / 2);
  set_threads(threads_before);
}

// By central differences of Σ y·r.
void expect_gradients(const Noise& noise) {
  for (const HeadsConfig& heads : all_heads()) {
    for (const auto& [activation, norm] : {std::pair(Activation::swiglu, NormKind::rms),
                                           std::pair(Activation::gelu_tanh, NormKind::layer)}) {
      Weights w(5);
      const Block b = block(
          w, "block", {.heads = heads, .mlp_width = 8, .activation = activation, .norm = norm});
      Tensor x = leaf({1, 4, 12}, 2);
      const Tensor r = Tensor::randn({1, 4, 12}, 9);
      const Rotary rotary = rotary_positions(3, 4, 2);
      BlockPass pass;
      pass.self.mask = masks::causal();
      pass.self.rotary = &rotary;
      pass.noise = noise;
      const auto value = [&] { return sum(b(x, pass) * r); };
      value().backward();
      const auto slope = [&](Tensor& t, int64_t i) {
        const NoGrad off;
        const auto put = [&](float now) { test::edit<float>(t, [&](float* at) { at[i] = now; }); };
        const float was = t.to_vector()[static_cast<size_t>(i)], h = 1e-2f;
        put(was + h);
        const double up = value().item();
        put(was - h);
        const double down = value().item();
        put(was);
        return (up - down) / (2.0 * h);
      };
      for (int64_t i = 0; i < 12; ++i) {
        EXPECT_NEAR(x.grad().to_vector()[static_cast<size_t>(i)], slope(x, i), 1e-2) << i;
      }
      for (auto& [name, t] : w.learned()) {
        Tensor weight = t;
        const int64_t i = weight.numel() / 2;
        EXPECT_NEAR(weight.grad().to_vector()[static_cast<size_t>(i)], slope(weight, i), 1e-2)
            << name;
      }
    }
  }
}

TEST(Layers, GradientsOfEveryKindOfHead) { expect_gradients({}); }

TEST(Layers, GradientsWithDropout) { expect_gradients({.dropout = 0.4f, .seed = 7}); }

// A row that sees one key and loses it is 0, and what is lost by chance comes back in the mean.
TEST(Layers, DroppedWeightsAreThoseInTheMean) {
  for (const HeadsConfig& heads : all_heads()) {
    Weights w(3);
    const MultiHead m = multi_head(w, "heads", heads);
    const NoGrad off;
    const Tensor x = Tensor::randn({1, 5, 12}, 1);
    HeadsPass pass;
    pass.mask = masks::causal();
    const Tensor whole = m.self(x, pass);
    constexpr int kSeeds = 4000;
    pass.noise.dropout = 0.5f;
    Tensor total = Tensor::zeros(whole.shape());
    for (int seed = 0; seed < kSeeds; ++seed) {
      pass.noise.seed = static_cast<uint64_t>(seed);
      total = total + m.self(x, pass);
    }
    EXPECT_LT(distance(total * (1.0f / kSeeds), whole), 0.06);
  }
}

TEST(Layers, AHookSeesWeightsAndMayReplaceThem) {
  Weights w(3);
  const MultiHead m = multi_head(w, "heads", {.width = 12, .heads = 6, .key_heads = 2});
  const Tensor x = Tensor::randn({2, 5, 12}, 1);
  Tensor seen;
  const HeadsHook look = [&](const Heads& h) {
    EXPECT_EQ(h.name, "heads");
    seen = h.attended.weights();
    return Tensor();
  };
  const HeadsHook same = [](const Heads& h) { return h.attended.weights(); };
  const HeadsHook none = [](const Heads& h) { return h.attended.weights() * 0.0f; };
  const Tensor plain = m.self(x);
  HeadsPass pass;
  pass.hook = &look;
  EXPECT_EQ(m.self(x, pass).to_vector(), plain.to_vector());
  EXPECT_EQ(seen.shape(), (Shape{2, 6, 5, 5}));
  EXPECT_LT(distance(sum(seen, {3}), Tensor::full({2, 6, 5}, 1.0f)), 1e-5);
  pass.hook = &same;
  EXPECT_LT(distance(m.self(x, pass), plain), 1e-5);
  pass.hook = &none;
  EXPECT_EQ(distance(m.self(x, pass), m.out.bias.expand({2, 5, 12})), 0.0);
}

TEST(Layers, APooledSetHasAFixedSize) {
  Weights w(3);
  const Pooling p = pooling(w, "pool", {.width = 8, .memory = 12, .heads = 2}, 3);
  const Tensor x = Tensor::randn({2, 7, 12}, 1);
  const Tensor lengths = Tensor::from_ids(std::vector<int64_t>{7, 4}, {2});
  const Tensor y = p(x, lengths);
  EXPECT_EQ(y.shape(), (Shape{2, 3, 8}));
  const Tensor mixed = in_order(x, {3, 1, 2, 0, 4, 5, 6});
  EXPECT_LT(distance(p(mixed, lengths), y), 1e-5);
  Tensor cut = x.clone();
  cut.select(0, 1).slice(0, 4, 7).fill_(NAN);
  EXPECT_EQ(p(cut, lengths).to_vector(), y.to_vector());
}

TEST(Layers, Positions) {
  const Tensor s = sinusoidal_positions(3, 2, 6);
  EXPECT_NEAR(s.to_vector()[0], std::sin(3.0), 1e-6);
  EXPECT_NEAR(s.to_vector()[6 + 3], std::cos(4.0 * std::pow(10000.0, -2.0 / 6.0)), 1e-6);
  const auto slopes = alibi_slopes(8).to_vector();
  EXPECT_FLOAT_EQ(slopes[0], 0.5f);
  EXPECT_FLOAT_EQ(slopes[7], 1.0f / 256.0f);
  EXPECT_EQ(alibi_slopes(6).numel(), 6);
  // Scores of turned rows depend on their distance alone.
  const Tensor q = Tensor::randn({1, 1, 1, 8}, 1), k = Tensor::randn({1, 1, 1, 8}, 2);
  const auto score_at = [&](int64_t i, int64_t j) {
    const Rotary a = rotary_positions(i, 1, 8), b = rotary_positions(j, 1, 8);
    return sum(rotate(q, a.cos, a.sin) * rotate(k, b.cos, b.sin)).item();
  };
  EXPECT_NEAR(score_at(5, 2), score_at(105, 102), 1e-4);
  EXPECT_GT(std::abs(score_at(5, 2) - score_at(5, 4)), 1e-3);
}

TEST(Layers, SayWhatDoesNotFit) {
  const auto made = [](const HeadsConfig& c) {
    return error_of([&] {
      Weights w;
      multi_head(w, "heads", c);
    });
  };
  EXPECT_EQ(made({.width = 10, .heads = 3}), "[heads] 3 heads do not divide the depth 10");
  EXPECT_EQ(made({.width = 12, .heads = 4, .key_heads = 3}),
            "[heads] key_heads must divide the 4 heads, found 3");
  EXPECT_EQ(made({.width = 12, .heads = 4, .groups = {{.heads = 3}}}),
            "[heads] the groups have 3 heads, expected 4");
  EXPECT_NE(made({.width = 12, .heads = 4, .groups = {{.heads = 4, .score = "dott"}}}).find("dot"),
            std::string::npos);
}

}  // namespace
}  // namespace fovea::nn
