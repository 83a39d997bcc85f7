#include "fovea/rank.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "fovea/ops.h"
#include "tests/errors.h"
#include "tests/reduced.h"

namespace fovea::explain {
namespace {

using test::error_of;
using test::has;

// As it is defined, entry by entry.
double direct(const std::vector<double>& x, size_t L, size_t W) {
  const auto norm = [&](const auto& entry) {
    double one = 0, infinity = 0;
    for (size_t j = 0; j < W; ++j) {
      double column = 0;
      for (size_t i = 0; i < L; ++i) column += std::abs(entry(i, j));
      one = std::max(one, column);
    }
    for (size_t i = 0; i < L; ++i) {
      double row = 0;
      for (size_t j = 0; j < W; ++j) row += std::abs(entry(i, j));
      infinity = std::max(infinity, row);
    }
    return std::sqrt(one * infinity);
  };
  const auto at = [&](size_t i, size_t j) { return x[i * W + j]; };
  const auto residual = [&](size_t i, size_t j) {
    double mean = 0;
    for (size_t k = 0; k < L; ++k) mean += at(k, j);
    return at(i, j) - mean / static_cast<double>(L);
  };
  return norm(residual) / norm(at);
}

TEST(RelativeResidual, IsItsFormula) {
  for (const auto& [L, W] : {std::pair{5, 7}, {1, 3}, {128, 40}, {9, 1}}) {
    const Tensor x = Tensor::randn({L, W}, 3) + 0.7f;
    const std::vector<float> values = x.to_vector();
    const double expected = direct({values.begin(), values.end()}, L, W);
    EXPECT_NEAR(relative_residual(x), expected, 1e-12) << L << "×" << W;
    // A view gives what its copy does.
    EXPECT_EQ(relative_residual(x.transpose(0, 1)),
              relative_residual(x.transpose(0, 1).contiguous()));
  }
}

TEST(RelativeResidual, OfKnownRows) {
  EXPECT_EQ(relative_residual(Tensor::randn({1, 6}, 1).expand({4, 6})), 0);
  EXPECT_EQ(relative_residual(Tensor::zeros({3, 2})), 0);
  EXPECT_DOUBLE_EQ(relative_residual(Tensor::from({1, -2, -1, 2}, {2, 2})), 1);  // of mean 0
  EXPECT_DOUBLE_EQ(relative_residual(Tensor::from({3, 0, 1, 0}, {2, 2})), std::sqrt(2.0 / 12));
  EXPECT_NEAR(relative_residual(Tensor::full({2, 2}, 1e30f)), 0, 1e-12);
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isnan(relative_residual(Tensor::from({NAN, 1, 2, 3}, {2, 2}))));
  EXPECT_TRUE(std::isnan(relative_residual(Tensor::from({1, 2, 3, inf}, {2, 2}))));
  EXPECT_TRUE(has(error_of([] { relative_residual(Tensor::zeros({2, 3, 4})); }), "[2, 3, 4]"));
  EXPECT_TRUE(has(error_of([] { relative_residual({}); }), "nothing"));
}

nn::Block block_of(nn::NormOrder order, nn::NormKind norm = nn::NormKind::layer) {
  nn::Weights w(5);
  return nn::block(w, "b", {.heads = {.width = 12, .heads = 3}, .norm = norm, .order = order});
}

TEST(Through, WithAllPartsIsTheBlock) {
  const Tensor x = Tensor::randn({2, 5, 12}, 8);
  for (const nn::NormOrder order : {nn::NormOrder::pre, nn::NormOrder::post}) {
    for (const nn::NormKind norm : {nn::NormKind::layer, nn::NormKind::rms}) {
      const nn::Block b = block_of(order, norm);
      nn::BlockPass pass;
      pass.self.mask = masks::causal();
      EXPECT_EQ(through(b, x, pass, {}).to_vector(), b(x, pass).to_vector());
    }
  }
}

TEST(Through, LeavesOutWhatItSays) {
  const Tensor x = Tensor::randn({2, 5, 12}, 8);
  const auto expect = [&](const nn::Block& b, const Parts& parts, const Tensor& expected) {
    EXPECT_EQ(through(b, x, {}, parts).to_vector(), expected.to_vector())
        << name_of(parts) << parts.norm;
  };
  const auto plus_mlp = [](const nn::Block& b, const Tensor& y) { return y + b.mlp(y); };
  const nn::Block post = block_of(nn::NormOrder::post);
  const Tensor looked = post.self.self(x);
  expect(post, {false, false, false}, looked);
  expect(post, {true, false, false}, x + looked);
  expect(post, {false, true, false}, plus_mlp(post, looked));
  expect(post, {true, true, false}, plus_mlp(post, x + looked));
  expect(post, {false, false, true}, post.self_norm(looked));
  expect(post, {true, false, true}, post.self_norm(x + looked));
  expect(post, {false, true, true}, post.mlp_norm(plus_mlp(post, post.self_norm(looked))));
  const nn::Block pre = block_of(nn::NormOrder::pre);
  const Tensor normed = pre.self.self(pre.self_norm(x));
  expect(pre, {false, false, false}, pre.self.self(x));
  expect(pre, {false, false, true}, normed);
  expect(pre, {true, false, true}, x + normed);
  expect(pre, {false, true, true}, normed + pre.mlp(pre.mlp_norm(normed)));
}

TEST(Through, ABlockThatLooksElsewhereIsRefused) {
  nn::Weights w(5);
  const nn::Block b = nn::block(w, "b", {.heads = {.width = 4, .heads = 1}, .cross = true});
  EXPECT_TRUE(has(error_of([&] { through(b, Tensor::zeros({1, 2, 4}), {}, {}); }), "source"));
}

const RankCurve& find(const std::vector<RankCurve>& curves, const Parts& parts) {
  for (const RankCurve& c : curves) {
    if (c.parts.skip == parts.skip && c.parts.mlp == parts.mlp && c.parts.norm == parts.norm) {
      return c;
    }
  }
  throw Error("find", "no such curve");
}

// Large weights, so that queries choose among keys and rows converge within float32's reach.
models::Transformer sharp(nn::NormOrder order = nn::NormOrder::post) {
  models::Transformer m = models::transformer({.source_vocabulary = 50,
                                               .blocks = 6,
                                               .depth = 32,
                                               .heads = 4,
                                               .order = order,
                                               .positions = nn::Positions::learned,
                                               .longest = 32},
                                              7);
  const NoGrad off;
  m.source.table.mul_(50.0f);
  return m;
}

Tensor ids(int64_t B, int64_t L) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < B * L; ++i) all.push_back(i * i * 7 % 50);
  return Tensor::from_ids(all, {B, L});
}

// Cubic convergence: log r_{l+1} ≈ 3·log r_l + a constant, so the logarithm itself grows
// exponentially until the numbers end.
TEST(Rank, AttentionAloneCollapsesDoublyExponentially) {
  const std::vector<RankCurve> curves = rank(sharp(), ids(4, 24));
  for (const bool norm : {true, false}) {
    const std::vector<double>& r = find(curves, {false, false, norm}).residual;
    ASSERT_EQ(r.size(), 7u);
    int steps = 0;
    for (size_t l = 1; l + 1 < r.size() && r[l + 1] > 3e-6; ++l, ++steps) {
      EXPECT_GT(std::log(r[l] / r[l + 1]), 1.3 * std::log(r[l - 1] / r[l])) << "layer " << l;
    }
    EXPECT_GE(steps, 1);
    EXPECT_LT(r.back(), 1e-5);
    EXPECT_LT(find(curves, {false, true, norm}).residual.back(), 0.01);
    for (const bool mlp : {false, true}) {
      for (const double kept : find(curves, {true, mlp, norm}).residual) EXPECT_GT(kept, 0.3);
    }
  }
}

// The curve with all parts is that of the model's own pass; with lengths, of each one's own rows.
TEST(Rank, OfAllPartsIsThatOfTheModel) {
  const Tensor lengths = Tensor::from_ids(std::vector<int64_t>{9, 1, 4}, {3});
  for (const nn::NormOrder order : {nn::NormOrder::pre, nn::NormOrder::post}) {
    const models::Transformer m = sharp(order);
    std::vector<double> expected;
    const auto take = [&](const Tensor& x) {
      expected.push_back(
          (relative_residual(x.select(0, 0)) + relative_residual(x.select(0, 2).slice(0, 0, 4))) /
          2);
    };
    models::encode(m, ids(3, 9), lengths,
                   {.block = [&](const nn::Block& b, const Tensor& x, const nn::BlockPass& pass) {
                     if (expected.empty()) take(x);
                     Tensor y = b(x, pass);
                     take(y);
                     return y;
                   }});
    EXPECT_EQ(find(rank(m, ids(3, 9), lengths), {}).residual, expected);
  }
}

TEST(Rank, PaddingChangesNothing) {
  const Tensor lengths = Tensor::from_ids(std::vector<int64_t>{5, 5}, {2});
  const Tensor whole = ids(2, 9);
  Tensor other = whole.clone();
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t l = 5; l < 9; ++l) other.mutable_data<int64_t>()[b * 9 + l] = 3;
  }
  const auto a = rank(sharp(), whole, lengths), b = rank(sharp(), other, lengths);
  ASSERT_EQ(a.size(), 8u);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].residual, b[i].residual);
}

TEST(Rank, OfADecoderByItself) {
  const models::Transformer m = models::transformer(
      {.target_vocabulary = 50, .blocks = 3, .depth = 32, .heads = 4, .linear = false}, 7);
  const auto curves = rank(m, ids(2, 12));
  ASSERT_EQ(curves.size(), 8u);
  for (const RankCurve& c : curves) {
    ASSERT_EQ(c.residual.size(), 4u);
    EXPECT_EQ(c.residual[0], curves[0].residual[0]);
    for (const double r : c.residual) EXPECT_TRUE(std::isfinite(r));
  }
  EXPECT_NE(find(curves, {}).residual, find(curves, {.skip = false}).residual);
}

TEST(Rank, NeedsTwoRows) {
  EXPECT_TRUE(has(error_of([] { rank(sharp(), ids(3, 1)); }), "two rows"));
}

// ---- Fresh models ------------------------------------------------------------------------------

constexpr FreshConfig kTiny = {
    .blocks = 3, .depth = 24, .heads = 2, .length = 10, .sequences = 2, .seed = 4};

TEST(FreshRank, DependsOnTheSeedAlone) {
  FreshConfig other = kTiny;
  other.seed = 5;
  const auto a = rank(kTiny), again = rank(kTiny), b = rank(other);
  ASSERT_EQ(a.size(), 8u);
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].residual, again[i].residual);
    EXPECT_NE(a[i].residual, b[i].residual);
    EXPECT_EQ(a[i].residual.size(), 4u);
  }
}

TEST(FreshRank, SaysHowFarItIs) {
  std::vector<double> shares;
  rank(kTiny, [&](double share) { shares.push_back(share); });
  ASSERT_EQ(shares.size(), 24u);
  EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
  EXPECT_EQ(shares.back(), 1.0);
  struct Stop {};
  EXPECT_THROW(rank(kTiny, [](double) { throw Stop{}; }), Stop);
}

TEST(FreshRank, RefusesWhatCannotBe) {
  const auto complaint = [](auto change) {
    FreshConfig c = kTiny;
    change(c);
    return error_of([&] { rank(c); });
  };
  EXPECT_TRUE(has(complaint([](auto& c) { c.heads = 7; }), "7 heads do not divide"));
  EXPECT_TRUE(has(complaint([](auto& c) { c.heads = 0; }), "heads must be in [1, 1024], found 0"));
  EXPECT_TRUE(has(complaint([](auto& c) { c.blocks = 0; }), "blocks must be in [1, 512]"));
  EXPECT_TRUE(has(complaint([](auto& c) { c.length = 1; }), "length must be in [2, "));
  EXPECT_TRUE(has(complaint([](auto& c) { c.sequences = -1; }), "sequences"));
  EXPECT_TRUE(has(complaint([](auto& c) { c.depth = int64_t{1} << 40; }), "query depth"));
  EXPECT_TRUE(has(complaint([](auto& c) { c.mlp_width = -1; }), "mlp width"));
}

TEST(FreshRank, CountsItsMemory) {
  EXPECT_GT(memory_of(FreshConfig{}), 7'000'000 * 4);  // a block of BERT-base, at least
  EXPECT_LT(memory_of(FreshConfig{}), 300'000'000);
  const FreshConfig largest{.blocks = 512,
                            .depth = 65536,
                            .heads = 1024,
                            .mlp_width = 1 << 20,
                            .length = 1 << 20,
                            .sequences = 1 << 16};
  EXPECT_GT(memory_of(largest), int64_t{1} << 50);
  EXPECT_GT(memory_of(models::TransformerConfig{.depth = 10, .mlp_width = 30}, 100),
            100 * (8 * 10 + 30) * 4);
}

// As published, Dong 2021: .612/.018/.000 for attention alone at layers 0/1/2, .597/.563/…/.345 for
// the whole model at layers 0/1/…/12.
TEST(FreshRank, OfBertBaseIsAsPublished) {
  if (test::reduced()) GTEST_SKIP() << "too slow under sanitizers";
  const auto curves = rank(FreshConfig{.sequences = 1});
  for (const bool norm : {true, false}) {
    for (const bool mlp : {false, true}) {
      const std::vector<double>& without = find(curves, {false, mlp, norm}).residual;
      ASSERT_EQ(without.size(), 13u);
      EXPECT_NEAR(without[0], 0.6, 0.1);
      EXPECT_NEAR(without[1], 0.018, 0.01);
      for (size_t l = 2; l < 13; ++l) EXPECT_LT(without[l], 1e-5);
      const std::vector<double>& with = find(curves, {true, mlp, norm}).residual;
      EXPECT_NEAR(with[1], 0.565, 0.1);
      EXPECT_GT(with[12], 0.3);
      EXPECT_LT(with[12], with[0]);
    }
  }
}

}  // namespace
}  // namespace fovea::explain
