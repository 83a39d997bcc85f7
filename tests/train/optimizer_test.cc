#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/optimize.h"
#include "on_device.h"
#include "tests/train/tiny.h"
#include "where.h"

namespace fovea::train::tests {
namespace {

using nlohmann::json;

const json& golden() {
  static const json all =
      json::parse(std::ifstream(test::source_dir() + "/tests/train/golden/optimizers.json"));
  return all;
}

OptimizerConfig config_of(const json& c) {
  return {method(c["method"]), c["beta1"],    c["beta2"],
          c["epsilon"],        c["momentum"], c["weight_decay"]};
}

Tensors leaves(std::initializer_list<std::pair<const std::string, Shape>> shapes) {
  Tensors all;
  uint64_t seed = 0;
  for (const auto& [name, shape] : shapes) {
    all[name] = Tensor::randn(shape, ++seed).set_requires_grad();
  }
  return all;
}

void give_gradients(const Tensors& all, uint64_t seed) {
  for (const auto& [name, tensor] : all) {
    Tensor(tensor).set_grad(Tensor::randn(tensor.shape(), ++seed));
  }
}

// golden/make.py wrote PyTorch's numbers.
TEST(Optimizer, agrees_with_pytorch) {
  const auto start = golden()["start"].get<std::vector<float>>();
  const auto gradients = golden()["gradients"].get<std::vector<float>>();
  const auto rates = golden()["rates"].get<std::vector<float>>();
  const int64_t n = golden()["n"];
  ASSERT_EQ(golden()["cases"].size(), 5u);
  for (const std::string& name : test::tested_isas()) {
    use_isa(name);
    for (const json& c : golden()["cases"]) {
      const auto expected = c["after"].get<std::vector<float>>();
      Tensor w = Tensor::from(start, {n});
      w.set_requires_grad();
      Optimizer optimizer(config_of(c), {{"w", w}});
      for (size_t t = 0; t < rates.size(); ++t) {
        w.set_grad(Tensor::from(std::span(gradients).subspan(t * n, n), {n}));
        optimizer.step(rates[t]);
        const std::vector<float> now = w.to_vector();
        for (int64_t i = 0; i < n; ++i) {
          const float e = expected[t * n + i];
          ASSERT_NEAR(now[static_cast<size_t>(i)], e, 2e-6f * (1 + std::abs(e)))
              << c["name"] << " step " << t << " weight " << i << " on " << name;
        }
      }
    }
  }
  use_isa("");
}

TEST(Optimizer, goes_on_from_its_state) {
  for (const Method m : {Method::adam, Method::adamw, Method::sgd}) {
    Tensors a = leaves({{"x", {5, 3}}, {"y", {7}}});
    Tensors b = leaves({{"x", {5, 3}}, {"y", {7}}});
    Optimizer one({.method = m}, a), two({.method = m}, b);
    for (int t = 0; t < 6; ++t) {
      if (t == 3) {
        const Tensors state = copy_of(one.state());
        two = Optimizer({.method = m}, b);
        two.load(state);
      }
      for (auto [weights, optimizer] : {std::pair(&a, &one), std::pair(&b, &two)}) {
        give_gradients(*weights, 10 * t);
        optimizer->step(0.1f);
      }
    }
    EXPECT_TRUE(same_bits(a, b));
    EXPECT_EQ(one.state().at("step").to_ids()[0], 6);
  }
}

TEST(Optimizer, leaves_weights_without_a_gradient_and_counts_a_tied_one_once) {
  Tensors all = leaves({{"a", {4}}, {"b", {4}}});
  all["c"] = all["b"];
  const Tensors before = copy_of(all);
  Optimizer optimizer({.method = Method::sgd, .momentum = 0.0f}, all);
  all["b"].set_grad(Tensor::full({4}, 1.0f));
  optimizer.step(0.5f);
  EXPECT_EQ(all["a"].to_vector(), before.at("a").to_vector());
  for (int i = 0; i < 4; ++i) {
    EXPECT_FLOAT_EQ(all["c"].to_vector()[i], before.at("b").to_vector()[i] - 0.5f);
  }
  EXPECT_FLOAT_EQ(clip_by_norm(all, 0), 2.0f);
}

ParameterGroup group(const std::string& prefix, float rate, std::optional<float> decay = {}) {
  return {[prefix](const std::string& name) { return name.starts_with(prefix); }, rate, decay};
}

// w ← w − rate·factor·(g + decay·w), each group with its own factor and decay.
TEST(Optimizer, groups_have_a_rate_and_a_decay_of_their_own) {
  Tensors all;
  for (const char* name : {"encoder.bias", "encoder.weight", "other", "norm"}) {
    all[name] = Tensor::full({3}, 2.0f).set_requires_grad();
    all[name].set_grad(Tensor::full({3}, 1.0f));
  }
  const OptimizerConfig config{
      .method = Method::sgd,
      .momentum = 0.0f,
      .weight_decay = 0.25f,
      .groups = {group("encoder.b", 0.0f), group("encoder", 0.5f), group("norm", 1.0f, 0.0f)}};
  Optimizer optimizer(config, all);
  optimizer.step(0.1f);
  const auto value = [&](const char* name) { return all[name].to_vector()[1]; };
  EXPECT_EQ(value("encoder.bias"), 2.0f);  // the first that has it counts
  EXPECT_FLOAT_EQ(value("encoder.weight"), 2.0f - 0.1f * 0.5f * (1 + 0.25f * 2));
  EXPECT_FLOAT_EQ(value("other"), 2.0f - 0.1f * (1 + 0.25f * 2));
  EXPECT_FLOAT_EQ(value("norm"), 2.0f - 0.1f);
}

// A group is an optimizer with those settings, bit for bit.
TEST(Optimizer, groups_are_optimizers_side_by_side) {
  for (const Method m : {Method::adam, Method::adamw, Method::sgd}) {
    Tensors together = leaves({{"a.w", {5, 3}}, {"b.w", {7}}, {"c.w", {40'000}}});
    Tensors apart = leaves({{"a.w", {5, 3}}, {"b.w", {7}}, {"c.w", {40'000}}});
    const OptimizerConfig plain{.method = m, .weight_decay = 0.1f};
    OptimizerConfig grouped = plain, no_decay = plain;
    grouped.groups = {group("a.", 0.25f), group("b.", 1.0f, 0.0f)};
    no_decay.weight_decay = 0.0f;
    Optimizer all(grouped, together), a(plain, {{"a.w", apart["a.w"]}}),
        b(no_decay, {{"b.w", apart["b.w"]}}), c(plain, {{"c.w", apart["c.w"]}});
    for (int t = 0; t < 4; ++t) {
      give_gradients(together, 10 * t);
      give_gradients(apart, 10 * t);
      all.step(0.125f, 0.5f);
      a.step(0.125f * 0.25f, 0.5f);
      b.step(0.125f, 0.5f);
      c.step(0.125f, 0.5f);
    }
    EXPECT_TRUE(same_bits(together, apart)) << name_of(m);
    // The state knows of no groups: one with others, or none, goes on from it.
    Optimizer next(plain, together);
    next.load(all.state());
    EXPECT_TRUE(same_bits(next.state(), all.state()));
  }
}

TEST(Optimizer, refuses_what_it_cannot_use) {
  const auto refused = [](const ParameterGroup& g) {
    EXPECT_THROW(Optimizer({.groups = {g}}, leaves({{"a", {2}}})), Error);
  };
  refused(group("a", -1.0f));
  refused(group("a", 1.0f, -0.5f));
  refused({});
  EXPECT_THROW(Optimizer({.beta1 = 1.0f}, leaves({{"a", {2}}})), Error);
  EXPECT_THROW(Optimizer({}, {{"ids", Tensor::arange(3)}}), Error);
  EXPECT_THROW(Optimizer({}, {{"turned", Tensor::zeros({2, 3}).transpose(0, 1)}}), Error);
  Optimizer optimizer({}, leaves({{"a", {2}}}));
  EXPECT_THROW(optimizer.load({}), Error);
  EXPECT_THROW(optimizer.load(Optimizer({}, leaves({{"b", {2}}})).state()), Error);
  EXPECT_THROW(optimizer.load(Optimizer({}, leaves({{"a", {3}}})).state()), Error);
  EXPECT_THROW(method("adagrad"), Error);
  EXPECT_STREQ(name_of(method("adamw")), "adamw");
}

TEST(Clip, scales_down_to_the_norm_and_never_up) {
  Tensors all = leaves({{"a", {2}}, {"b", {1}}, {"no gradient", {5}}});
  all["a"].set_grad(Tensor::from({3, 0}, {2}));
  all["b"].set_grad(Tensor::from({4}, {1}));
  EXPECT_FLOAT_EQ(clip_by_norm(all, 10), 5);
  EXPECT_FLOAT_EQ(all["a"].grad().to_vector()[0], 3);
  EXPECT_FLOAT_EQ(clip_by_norm(all, 1), 5);
  EXPECT_FLOAT_EQ(all["a"].grad().to_vector()[0], 0.6f);
  EXPECT_FLOAT_EQ(all["b"].grad().to_vector()[0], 0.8f);
  EXPECT_FLOAT_EQ(clip_by_norm(all, 0), 1);
  all["a"].set_grad(Tensor::from({3e30f, 4e30f}, {2}));
  EXPECT_FLOAT_EQ(clip_by_norm(all, 0), 5e30f);  // its square is no float
}

// Blocks are the same however many threads work on them.
TEST(Optimizer, is_bit_equal_at_any_number_of_threads) {
  const int before = threads();
  std::vector<Tensors> ends;
  std::vector<float> norms;
  for (const int n : {1, 2, 5}) {
    set_threads(n);
    Tensors all = leaves({{"a", {100'003}}, {"b", {17}}, {"c", {300, 301}}});
    Optimizer optimizer({.method = Method::adamw, .weight_decay = 0.1f}, all);
    for (int t = 0; t < 3; ++t) {
      give_gradients(all, 100 * t);
      norms.push_back(clip_by_norm(all, 1.0f));
      optimizer.step(0.01f);
    }
    ends.push_back(copy_of(all));
  }
  set_threads(before);
  for (size_t i = 1; i < ends.size(); ++i) {
    EXPECT_TRUE(same_bits(ends[0], ends[i]));
    for (int t = 0; t < 3; ++t) EXPECT_EQ(norms[t], norms[3 * i + t]);
  }
  EXPECT_NEAR(norms[0], std::sqrt(100'003 + 17 + 300 * 301), 2.0);  // N(0, 1) numbers
}

TEST(Kernels, norm_scale_and_average_by_their_formulas) {
  for (const std::string& name : test::tested_isas()) {
    use_isa(name);
    for (const int64_t n : {0, 1, 7, 64, 16'384, 40'001}) {
      std::vector<float> x(n), a(n);
      double expected = 0;
      for (int64_t i = 0; i < n; ++i) {
        x[i] = static_cast<float>(i % 13) - 6.5f;
        a[i] = static_cast<float>(i % 7);
        expected += static_cast<double>(x[i]) * x[i];
      }
      const kernels::Values values{x.data(), n};
      EXPECT_NEAR(kernels::squared_norm({&values, 1}), expected, 1e-9 * expected);
      const kernels::Averaged averaged{a.data(), x.data(), n};
      kernels::move_average({&averaged, 1}, 0.75f);
      for (int64_t i = 0; i < n; ++i) {
        ASSERT_FLOAT_EQ(a[i], 0.75f * static_cast<float>(i % 7) + 0.25f * x[i]);
      }
      kernels::scale({&values, 1}, 0.5f);
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(x[i], 0.5f * (static_cast<float>(i % 13) - 6.5f));
    }
  }
  use_isa("");
}

}  // namespace
}  // namespace fovea::train::tests
