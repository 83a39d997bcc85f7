#include <algorithm>
#include <cmath>

#include "attention/expect.h"
#include "fovea/ops.h"

// Sizes and layouts: empty, odd, long, wide, and views of any strides.
namespace fovea::tests {
namespace {

constexpr Tolerance kForward{1e-5, 1.3e-6};
constexpr Tolerance kBackward{2e-5, 1e-4};  // sums over Lq or Lk terms of size 1

// ---- nothing -----------------------------------------------------------------------------------

void expect_all_zero(const Call& x, const std::string& what) {
  const Results r = results(x);
  for (const auto& [name, values] : r) {
    const float expected = name == "log_sum_exp" ? -kInf : name == "chosen" ? -1.0f : 0.0f;
    for (const float y : values) ASSERT_EQ(y, expected) << what << " " << name;
  }
}

TEST(Empty, NoKeysNoQueriesNoBatchNoHeadsGiveZerosOrNothing) {
  const Sizes some{.B = 2, .H = 4, .Hk = 2, .Lq = 5, .Lk = 7, .Dq = 3, .Dk = 3, .Dv = 4};
  for (int64_t Sizes::*gone : {&Sizes::Lk, &Sizes::Lq, &Sizes::B, &Sizes::H}) {
    Sizes n = some;
    n.*gone = 0;
    if (gone == &Sizes::H) n.Hk = 0;
    for (const ScoreDef* score : score_table()) {
      for (const WeightingDef* weighting : weighting_table()) {
        for (const Mask& mask : {Mask{}, masks::causal(), masks::window(2)}) {
          for (const Plan plan : {Plan::automatic, Plan::composed, Plan::reference}) {
            Call x = call(n, {generate::score(*score, n, 1),
                              mask,
                              {.def = weighting, .numbers = generate::numbers(weighting)}});
            x.want = {.weights = true, .plan = plan};
            expect_all_zero(x, score->name + " " + weighting->name);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST(Empty, WidthZeroScoresAllKeysAlikeAndAveragesTheValues) {
  const Sizes n{.B = 2, .H = 2, .Hk = 1, .Lq = 5, .Lk = 37, .Dq = 0, .Dk = 0, .Dv = 9};
  for (const char* score : {"dot", "scaled_dot", "multiplicative", "additive_keras", "additive"}) {
    Call x = call(n, {score_for(score, n)});
    const auto expected = reference_results(x);
    const std::vector<float> mean = fovea::mean(x.v, {2}).to_vector();  // [B,1,Dv]
    on_every_isa([&](const std::string&) {
      const Results r = results(x, Ask::context);
      expect_near(r, expected, kForward, kBackward, score);
      for (int64_t d = 0; d < n.Dv; ++d) EXPECT_NEAR(r.at("context")[d], mean[d], 1e-6);
    });
    if (HasFatalFailure()) return;
  }
}

TEST(Empty, ValuesOfWidthZeroStillHaveWeights) {
  Sizes n{.B = 2, .H = 2, .Hk = 1, .Lq = 5, .Lk = 37, .Dq = 6, .Dk = 6, .Dv = 0};
  for (const std::string& score : families()) {
    Call x = call(n, {score_for(score, n), masks::causal()});
    const ReferenceOutput expected = reference_forward(
        {.q = x.q, .k = x.k, .v = x.v, .attention = x.attention, .n = n, .weights = true});
    on_every_isa([&](const std::string&) {
      const Results r = results(x);
      EXPECT_TRUE(r.at("context").empty());
      expect_near(r.at("weights"), expected.weights, kForward, score);
      for (const float y : r.at("dq of context")) ASSERT_EQ(y, 0.0f);
    });
  }
}

// One query has a kernel of its own.
TEST(Empty, ValuesOfWidthZeroMeetOneQueryToo) {
  const Sizes n{.B = 1, .H = 4, .Hk = 2, .Lq = 1, .Lk = 64, .Dq = 16, .Dk = 16, .Dv = 0};
  on_every_isa([&](const std::string&) {
    for (const DType type : {DType::f32, DType::bf16}) {
      Call x = call(n);
      x.k = x.k.to(type);
      x.v = x.v.to(type);
      const Attended a = attend_as_called(x);
      EXPECT_TRUE(a.context.to_vector().empty());
      EXPECT_EQ(a.weights().shape(), (Shape{1, 4, 1, 64}));
    }
  });
}

// ---- lengths and widths ------------------------------------------------------------------------

// All of the context where that is cheap, else the first, the middle and the last rows.
void expect_context(const Call& x, const std::string& what) {
  const Sizes n = sizes_of(x.q, x.k, x.v);
  const std::vector<float> context = attend(x.q, x.k, x.v, x.attention).context.to_vector();
  Call y = x;
  std::vector<int64_t> rows;
  if (n.Lq > 20) {
    rows = {0, n.Lq / 2 - 1, n.Lq - 2, n.Lq - 1};
    y.q = index_select(x.q, 2, Tensor::from_ids(rows, {4}));
  } else {
    for (int64_t i = 0; i < n.Lq; ++i) rows.push_back(i);
  }
  std::vector<float> picked;
  for (int64_t head = 0; head < n.B * n.H; ++head) {
    for (const int64_t i : rows) {
      const std::vector<float> row = row_of(context, head * n.Lq + i, n.Dv);
      picked.insert(picked.end(), row.begin(), row.end());
    }
  }
  expect_near(picked, reference_results(y, false).at("context"), kForward, what);
}

TEST(Lengths, OfAnySizeAreWithinTolerance) {
  const std::vector<std::pair<int64_t, int64_t>> lengths = {
      {1, 1},     {2, 2},     {3, 3},    {5, 5},    {17, 17},     {97, 97},
      {113, 203}, {127, 513}, {1, 1025}, {1025, 1}, {1023, 1024}, {1025, 1025}};
  for (const auto& [Lq, Lk] : lengths) {
    const Sizes n{.B = 1, .H = 1, .Hk = 1, .Lq = Lq, .Lk = Lk, .Dq = 16, .Dk = 16, .Dv = 16};
    for (const char* score : {"scaled_dot", "additive_keras"}) {
      const Call x = call(n, {score_for(score, n)});
      const std::string what =
          std::string(score) + " " + std::to_string(Lq) + "×" + std::to_string(Lk);
      on_every_isa([&](const std::string&) { expect_context(x, what); });
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Lengths, HaveGradientsWithinTolerance) {
  for (const auto& [Lq, Lk] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {2, 3}, {5, 17}, {17, 5}, {97, 65}, {113, 203}}) {
    const Sizes n{.B = 1, .H = 2, .Hk = 1, .Lq = Lq, .Lk = Lk, .Dq = 8, .Dk = 8, .Dv = 8};
    for (const char* score : {"scaled_dot", "additive_keras"}) {
      const Call x = call(n, {score_for(score, n)});
      const auto expected = reference_results(x);
      const std::string what =
          std::string(score) + " " + std::to_string(Lq) + "×" + std::to_string(Lk);
      on_every_isa([&](const std::string&) {
        expect_near(results(x, Ask::context), expected, kForward, kBackward, what);
      });
      if (HasFatalFailure()) return;
    }
  }
}

// All that a part of a vector, and of a square that is transposed, can be.
TEST(Lengths, AndWidthsUpToSomeVectorsAreWithinTolerance) {
  for (const int64_t width : {1, 2, 3, 4, 5, 8, 12, 16, 17, 20}) {
    for (int64_t Lk = 1; Lk <= 20; ++Lk) {
      const Sizes n{
          .B = 1, .H = 1, .Hk = 1, .Lq = 3, .Lk = Lk, .Dq = width, .Dk = width, .Dv = width};
      for (const char* score : {"scaled_dot", "additive_keras"}) {
        const Call x = call(n, {score_for(score, n)});
        const auto expected = reference_results(x);
        const std::string what =
            std::string(score) + " " + std::to_string(Lk) + "×" + std::to_string(width);
        on_every_isa([&](const std::string&) {
          expect_near(results(x, Ask::context), expected, kForward, kBackward, what);
        });
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Widths, OfAnySizeAreWithinTolerance) {
  for (const int64_t width : {1, 3, 40, 59, 111, 256}) {
    const Sizes n{
        .B = 1, .H = 2, .Hk = 1, .Lq = 13, .Lk = 45, .Dq = width, .Dk = width, .Dv = width};
    for (const char* score : {"scaled_dot", "additive_keras"}) {
      Call x = call(n, {score_for(score, n)});
      if (std::string(score) == "additive_keras") x.attention.score.scale = 0.25f;
      const auto expected = reference_results(x);
      on_every_isa([&](const std::string&) {
        expect_near(results(x, Ask::context), expected, kForward, kBackward,
                    std::string(score) + " width " + std::to_string(width));
      });
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Widths, OfQueriesKeysAndValuesMayDiffer) {
  const Sizes n{.B = 1, .H = 2, .Hk = 1, .Lq = 13, .Lk = 45, .Dq = 7, .Dk = 12, .Dv = 33};
  for (const char* score : {"multiplicative", "additive", "tanh_unit", "location", "mlp"}) {
    const Call x = call(n, {score_for(score, n)});
    expect_near(results(x, Ask::context), reference_results(x), kForward, kBackward, score);
    if (HasFatalFailure()) return;
  }
}

// Queries ×5 and keys ×3 of what a tile holds, and some.
TEST(Lengths, ThatAreNoMultipleOfATileLeaveNoNan) {
  for (const auto& [Lq, Lk] : std::vector<std::pair<int64_t, int64_t>>{
           {64 * 5 + 1, 32 * 3 + 1}, {64 * 5 - 1, 256 * 3 + 7}, {8 * 5 + 3, 32 * 3 - 1}, {5, 3}}) {
    const Sizes n{.B = 1, .H = 1, .Hk = 1, .Lq = Lq, .Lk = Lk, .Dq = 9, .Dk = 9, .Dv = 17};
    for (const char* score : {"scaled_dot", "additive_keras"}) {
      for (const char* mask : {"", "causal", "window:33"}) {
        Call x = call(n, {score_for(score, n), fovea::mask(mask)});
        x.q.mul_(5.0f);
        x.k.mul_(3.0f);
        on_every_isa([&](const std::string&) {
          for (const auto& [name, values] : results(x, Ask::context))
            ASSERT_TRUE(all_finite(values)) << score << " " << mask << " " << name;
        });
        if (HasFatalFailure()) return;
      }
    }
  }
}

// ---- views -------------------------------------------------------------------------------------

// The same numbers in memory of other layouts.
std::vector<std::pair<std::string, Tensor>> layouts(const Tensor& t) {
  const Tensor last_first = t.permute({3, 1, 0, 2}).contiguous().permute({2, 1, 3, 0});
  const Tensor heads_inside = t.transpose(1, 2).contiguous().transpose(1, 2);
  const Tensor padded =
      pad(pad(t, 3, 3, 2), 2, 1, 4).slice(2, 1, 1 + t.size(2)).slice(3, 3, 3 + t.size(3));
  const Tensor every_other = stack({t, t * 0.0f + kNan}, 4).select(4, 0);
  std::vector<float> reversed;
  const std::vector<float> x = t.to_vector();
  for (int64_t row = t.numel() / t.size(3) - 1; row >= 0; --row)
    for (int64_t d = t.size(3) - 1; d >= 0; --d) reversed.push_back(x[row * t.size(3) + d]);
  Shape strides = t.contiguous().strides();
  for (int64_t& s : strides) s = -s;
  const Tensor negative =
      Tensor::from(reversed, t.shape()).as_strided(t.shape(), strides, t.numel() - 1);
  return {{"transposed", last_first},
          {"heads inside", heads_inside},
          {"offset", padded},
          {"every other", every_other},
          {"negative strides", negative}};
}

// Gradients that are summed in another order: a sum of float32 is as exact as its terms, which the
// largest of a tensor shows, where they cancel too.
void expect_near_by_largest(const Results& found, const Results& expected,
                            const std::string& what) {
  for (const auto& [name, x] : expected) {
    const bool gradient = name.find(" of ") != name.npos;
    float largest = 0;
    for (const float y : x) largest = std::max(largest, std::abs(y));
    expect_near(found.at(name), x,
                gradient || test::on_gpu() ? Tolerance{2e-6 * largest, 0} : Tolerance{2e-6, 2e-6},
                what + " " + name);
    if (testing::Test::HasFatalFailure()) return;
  }
}

// With so few keys that the CPU keeps their weights for the backward pass, and with more.
class AnyStrides : public testing::TestWithParam<int64_t> {};

TEST_P(AnyStrides, AreAsContiguous) {
  const Sizes n{.B = 2, .H = 4, .Hk = 2, .Lq = 35, .Lk = GetParam(), .Dq = 16, .Dk = 16, .Dv = 24};
  for (const std::string& score : families()) {
    for (const char* weighting : {"softmax", "none", "entmax15", "gumbel"}) {
      Call x = call(n, {score_for(score, n), masks::causal(), fovea::weighting(weighting)});
      x.d_context = Tensor::randn({n.B, n.H, n.Lq, n.Dv}, 5);
      const Results expected = results(x, Ask::context);
      const auto qs = layouts(x.q), ks = layouts(x.k), vs = layouts(x.v), ds = layouts(x.d_context);
      for (size_t i = 0; i < qs.size(); ++i) {
        Call y = x;
        y.q = qs[i].second;
        y.k = ks[(i + 1) % ks.size()].second;
        y.v = vs[(i + 2) % vs.size()].second;
        y.d_context = ds[(i + 3) % ds.size()].second;
        expect_near_by_largest(results(y, Ask::context), expected,
                               score + " " + weighting + " q " + qs[i].first);
        if (HasFatalFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Keys, AnyStrides, testing::Values(50, 70));

TEST(Views, WithStrideZeroAreAsExpanded) {
  const Sizes n{.B = 3, .H = 4, .Hk = 2, .Lq = 20, .Lk = 33, .Dq = 16, .Dk = 16, .Dv = 16};
  for (const std::string& score : families()) {
    Call x = call(n, {score_for(score, n)});
    x.q = Tensor::randn({1, 4, 20, 16}, 1).expand({3, 4, 20, 16});
    x.k = Tensor::randn({3, 1, 33, 16}, 2).expand({3, 2, 33, 16});
    x.v = Tensor::randn({1, 1, 33, 1}, 3).expand({3, 2, 33, 16});
    x.d_context = Tensor::randn({1, 1, 20, 1}, 4).expand({3, 4, 20, 16});
    Call y = x;
    for (Tensor* t : {&y.q, &y.k, &y.v, &y.d_context}) *t = t->contiguous();
    on_every_isa([&](const std::string&) {
      expect_near(results(x, Ask::context), results(y, Ask::context), {2e-6, 2e-6}, {1e-4, 1e-4},
                  score);
    });
  }
}

TEST(Views, AsDecodedFromAStridedCacheAreAsContiguous) {
  const Sizes n{.B = 2, .H = 4, .Hk = 2, .Lq = 1, .Lk = 700, .Dq = 32, .Dk = 32, .Dv = 32};
  const Call x = call(n);
  const Results expected = results(x, Ask::context);
  const auto ks = layouts(x.k), vs = layouts(x.v);
  for (size_t i = 0; i < ks.size(); ++i) {
    Call y = x;
    y.k = ks[i].second;
    y.v = vs[i].second;
    expect_near(results(y, Ask::context), expected, {2e-6, 2e-6}, {1e-5, 1e-5}, ks[i].first);
  }
}

TEST(Masks, OfRank1To4AreAsExpanded) {
  const Sizes n{.B = 3, .H = 4, .Hk = 2, .Lq = 21, .Lk = 37, .Dq = 8, .Dk = 8, .Dv = 8};
  for (const Shape& shape :
       {Shape{37}, Shape{1}, Shape{21, 37}, Shape{21, 1}, Shape{4, 1, 37}, Shape{1, 21, 37},
        Shape{3, 1, 1, 37}, Shape{3, 1, 21, 37}, Shape{1, 4, 21, 1}, Shape{3, 4, 21, 37}}) {
    const Tensor added = Tensor::randn(shape, 21);
    const Tensor allowed = greater(added, Tensor::scalar(-0.7f));
    for (const Tensor& matrix : {allowed, added}) {
      Call x = call(n, {.mask = masks::matrix(matrix)});
      Call y = call(n, {.mask = masks::matrix(matrix.expand({3, 4, 21, 37}).contiguous())});
      Results small = results(x), large = results(y);
      std::erase_if(small, [](const auto& r) { return r.first.starts_with("dmask"); });
      std::erase_if(large, [](const auto& r) { return r.first.starts_with("dmask"); });
      expect_same_bits(small, large, to_string(shape));
      if (HasFatalFailure()) return;
    }
  }
}

// ---- more than 2³¹ -----------------------------------------------------------------------------

TEST(Large, LengthsBeyondTheIndexOfAKeyAreRefused) {
  const int64_t many = int64_t{1} << 31;
  const Tensor q = Tensor::zeros({1, 1, 2, 4});
  const Tensor k = Tensor::zeros({1, 1, 1, 4}).expand({1, 1, many, 4});
  EXPECT_THROW(attend(q, k, k), Error);
  // A product of sizes that wraps to 0 is not empty: the context would take 2⁵⁰ bytes.
  const int64_t side = int64_t{1} << 16;
  const Tensor wide = Tensor::zeros({1, 1, 1, 4}).expand({side, side, side, 4});
  EXPECT_THROW(attend(wide, wide, wide), Error);
}

// B·H·Lq·Lk > 2³¹ pairs, few of them seen.
TEST(Large, MorePairsThan32BitsCountAreIndexedIn64) {
  const int64_t L = 70'000;
  const Sizes n{.B = 1, .H = 1, .Hk = 1, .Lq = L, .Lk = L, .Dq = 2, .Dk = 2, .Dv = 2};
  for (const char* score : {"scaled_dot", "additive_keras"}) {
    Call x = call(n, {score_for(score, n), masks::window(3)});
    x.d_context = Tensor::full({1, 1, L, 2}, 1.0f);
    const Results r = results(x, Ask::context);
    for (const auto& [name, values] : r) ASSERT_TRUE(all_finite(values)) << name;
    // The last 50 queries by themselves, which see the last 53 keys, shifted to query 0.
    Call y = x;
    y.q = x.q.slice(2, L - 53, L);
    y.k = x.k.slice(2, L - 53, L);
    y.v = x.v.slice(2, L - 53, L);
    y.d_context = x.d_context.slice(2, L - 53, L);
    const auto expected = reference_results(y);
    for (int64_t i = 3; i < 53; ++i) {
      for (int64_t d = 0; d < 2; ++d) {
        ASSERT_NEAR(r.at("context")[(L - 53 + i) * 2 + d], expected.at("context")[i * 2 + d], 1e-5);
        ASSERT_NEAR(r.at("dq of context")[(L - 53 + i) * 2 + d],
                    expected.at("dq of context")[i * 2 + d], 2e-5);
      }
    }
  }
}

}  // namespace
}  // namespace fovea::tests
