#include <algorithm>
#include <numeric>

#include "attention/expect.h"
#include "fovea/ops.h"
#include "tensor/impl.h"

// Identities that hold for any numbers: no reference is needed to notice that one is broken.
namespace fovea::tests {
namespace {

constexpr Sizes kPropertySizes{
    .B = 2, .H = 4, .Hk = 2, .Lq = 21, .Lk = 45, .Dq = 12, .Dk = 12, .Dv = 10};
constexpr Tolerance kSame{5e-6, 5e-6};

Tensor shuffled(int64_t n, uint64_t seed) {
  const std::vector<float> order = Tensor::rand({n}, seed).to_vector();
  std::vector<int64_t> ids(n);
  std::iota(ids.begin(), ids.end(), 0);
  std::sort(ids.begin(), ids.end(), [&](int64_t a, int64_t b) { return order[a] < order[b]; });
  return Tensor::from_ids(ids, {n});
}

std::vector<float> context_of(const Call& x) {
  return attend(x.q, x.k, x.v, x.attention, x.want).context.to_vector();
}

TEST(Property, PermutedQueriesGivePermutedContexts) {
  const Tensor ids = shuffled(kPropertySizes.Lq, 3);
  for (const ScoreDef* score : score_table()) {
    Call x = call(kPropertySizes, {generate::score(*score, kPropertySizes, 2)});
    const Tensor expected = index_select(attend(x.q, x.k, x.v, x.attention).context, 2, ids);
    x.q = index_select(x.q, 2, ids);
    expect_near(context_of(x), expected.to_vector(), kSame, score->name);
  }
}

TEST(Property, PermutedKeysAndValuesGiveTheSameContext) {
  const Tensor ids = shuffled(kPropertySizes.Lk, 4);
  for (const ScoreDef* score : score_table()) {
    if (score->name == "location") continue;  // there a key's position is what counts
    for (const WeightingDef* weighting : weighting_table()) {
      if (weighting->hard) continue;  // draws go by position, and so do ties
      Call x = call(kPropertySizes, {generate::score(*score, kPropertySizes, 2),
                                     {},
                                     {.def = weighting, .numbers = generate::numbers(weighting)}});
      const std::vector<float> expected = context_of(x);
      x.k = index_select(x.k, 2, ids);
      x.v = index_select(x.v, 2, ids);
      // `none` adds up scores of any size and sign.
      const Tolerance t = weighting->normalised ? kSame : Tolerance{2e-4, 5e-6};
      expect_near(context_of(x), expected, t, score->name + " " + weighting->name);
    }
  }
}

TEST(Property, NormalisedWeightsSumTo1AndNoneIsNegative) {
  for (const ScoreDef* score : score_table()) {
    for (const WeightingDef* weighting : weighting_table()) {
      if (!weighting->normalised) continue;
      for (const char* mask : {"everything", "causal", "window:5"}) {
        const Call x =
            call(kPropertySizes, {generate::score(*score, kPropertySizes, 2),
                                  fovea::mask(mask),
                                  {.def = weighting, .numbers = generate::numbers(weighting)}});
        const Tensor w = attend(x.q, x.k, x.v, x.attention).weights();
        for (const float y : w.to_vector()) ASSERT_GE(y, 0.0f);
        for (const float y : sum(w, {3}).to_vector())
          ASSERT_NEAR(y, 1.0f, 5e-6) << score->name << " " << weighting->name << " " << mask;
      }
    }
  }
}

TEST(Property, TheContextIsTheWeightsTimesTheValues) {
  Sizes n = kPropertySizes;
  n.Hk = n.H;
  for (const WeightingDef* weighting : weighting_table()) {
    Call x = call(
        n,
        {{},
         masks::causal(),
         {.def = weighting, .numbers = generate::numbers(weighting), .dropout = 0.3f, .seed = 7}});
    const Attended a = attend(x.q, x.k, x.v, x.attention);
    expect_near(a.context.to_vector(), matmul(a.weights(), x.v).to_vector(), {2e-5, 1e-5},
                weighting->name);
  }
}

TEST(Property, AWindowWideEnoughSeesEverything) {
  for (const std::string& score : families()) {
    Call x =
        call(kPropertySizes, {score_for(score, kPropertySizes), masks::window(kPropertySizes.Lk)});
    const Results wide = results(x);
    x.attention.mask = {};
    expect_near(wide, results(x), kSame, {2e-5, 1e-5}, score);
    x.attention.mask = masks::causal() & masks::window(1000);
    const Results narrow = results(x);
    x.attention.mask = masks::causal();
    expect_near(narrow, results(x), kSame, {2e-5, 1e-5}, score);
  }
}

TEST(Property, AWindowOpenOnTheLeftIsCausal) {
  Sizes n = kPropertySizes;
  n.Lq = n.Lk;
  for (const std::string& score : families()) {
    Call x = call(n, {score_for(score, n), masks::window(masks::kUnbounded, 0)});
    const Results open = results(x);
    x.attention.mask = masks::causal();
    expect_same_bits(open, results(x), score);
  }
}

// Row by row through the decoding kernel, the keys so far as the cache.
TEST(Property, DecodingAgainstACacheIsTheLastRowOfTheWhole) {
  for (const int64_t D : {10, 32}) {
    const Sizes n{.B = 2, .H = 4, .Hk = 2, .Lq = 40, .Lk = 40, .Dq = D, .Dk = D, .Dv = D};
    for (const std::string& score : families()) {
      const Call x = call(n, {score_for(score, n), masks::causal()});
      const Tensor whole = attend(x.q, x.k, x.v, x.attention).context;
      for (const int64_t t : {0, 1, 17, 39}) {
        const Tensor one = attend(x.q.slice(2, t, t + 1), x.k.slice(2, 0, t + 1),
                                  x.v.slice(2, 0, t + 1), x.attention)
                               .context;
        expect_near(one.to_vector(), whole.slice(2, t, t + 1).to_vector(), kSame, score);
      }
    }
  }
}

// [B,L,H·D] seen as [B,H,L,D] takes the memory of the result and no copy of the heads.
TEST(Property, HeadsSplitAsAViewNeedNoCopy) {
  const int64_t B = 2, L = 128, H = 4, D = 32;
  const Tensor x = Tensor::randn({B, L, H * D}, 1), y = Tensor::randn({B, L, H * D}, 2);
  const auto split = [&](const Tensor& t) { return t.reshape({B, L, H, D}).transpose(1, 2); };
  const Tensor q = split(x), k = split(y);
  EXPECT_EQ(q.impl()->data, x.impl()->data);
  const Tensor expected = attend(q.contiguous(), k.contiguous(), k.contiguous()).context;
  const auto peak = [](const Tensor& a, const Tensor& b) {
    reset_memory_peak();
    const int64_t before = memory_in_use();
    attend(a, b, b);
    return memory_peak() - before;
  };
  const Tensor qc = q.contiguous(), kc = k.contiguous();
  EXPECT_LE(peak(q, k), peak(qc, kc) + 4096);
  expect_near(attend(q, k, k).context.to_vector(), expected.to_vector(), {1e-6, 1e-6},
              "split heads");
}

TEST(Property, GroupedHeadsAreRepeatedKeysAndValues) {
  const auto repeated = [](const Tensor& t) {
    return t.unsqueeze(2)
        .expand({t.size(0), t.size(1), 2, t.size(2), t.size(3)})
        .reshape({t.size(0), 2 * t.size(1), t.size(2), t.size(3)});
  };
  for (const std::string& score : families()) {
    for (const int64_t Lq : {1, 21}) {
      Sizes n = kPropertySizes;
      n.Lq = Lq;
      Call x = call(n, {score_for(score, n), masks::causal()});
      const Results grouped = results(x, Ask::context);
      const Leaves leaves = make_leaves(x);
      const Tensor context = attend(x.q, repeated(x.k), repeated(x.v), x.attention).context;
      Results expected{{"context", context.to_vector()}};
      add_gradients(context, Tensor::randn(context.shape(), 11), "context", leaves, expected);
      expect_near(grouped, expected, kSame, {2e-5, 1e-5}, score);
    }
  }
}

TEST(Property, MultiplicativeWithTheIdentityIsDot) {
  std::vector<float> identity(12 * 12);
  for (int64_t i = 0; i < 12; ++i) identity[i * 13] = 1.0f;
  Call x = call(kPropertySizes, {scores::dot()});
  Call y = call(kPropertySizes, {scores::multiplicative(Tensor::from(identity, {12, 12}))});
  Results expected = results(x);
  expect_near(results(y), expected, kSame, {2e-5, 1e-5}, "");
}

TEST(Property, CosineDoesNotDependOnLengthsOfVectors) {
  Call x = call(kPropertySizes, {scores::cosine(Tensor::from({3.0f}, {1}))});
  const std::vector<float> expected = context_of(x);
  for (const float factor : {0.01f, 1000.0f}) {
    Call y = x;
    y.q = x.q * factor;
    y.k = x.k * (1.0f / factor);
    expect_near(context_of(y), expected, {1e-5, 1e-5}, std::to_string(factor));
  }
}

TEST(Property, PlansAgree) {
  const Sizes n{.B = 2, .H = 4, .Hk = 2, .Lq = 70, .Lk = 150, .Dq = 9, .Dk = 9, .Dv = 20};
  const Tensor lengths = Tensor::from_ids(std::vector<int64_t>{150, 77}, {2});
  for (const char* score : {"dot", "elu_dot", "multiplicative"}) {
    for (const Mask& mask : {Mask{}, masks::causal(), masks::lengths(lengths),
                             masks::causal() & masks::lengths(lengths)}) {
      Call x = call(n, {score_for(score, n), mask, weightings::none()});
      x.attention.score.scale = 0.1f;
      x.want.plan = Plan::fused;
      const Results fused = results(x);
      x.want.plan = Plan::linear;
      // Sums of up to 150 products of size 1 in another order.
      on_every_isa([&](const std::string&) {
        expect_near(results(x), fused, {1e-4, 1e-5}, {5e-4, 1e-5}, score);
      });
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Property, ComposedIsFused) {
  for (const ScoreDef* score : score_table()) {
    if (score->name == "mlp") continue;  // composed is all it has
    Call x = call(kPropertySizes,
                  {generate::score(*score, kPropertySizes, 2), masks::causal() & masks::window(9)});
    x.want.plan = Plan::fused;
    const Results fused = results(x);
    x.want.plan = Plan::composed;
    expect_near(results(x), fused, {1e-5, 1e-5}, {5e-5, 1e-4}, score->name);
  }
}

TEST(Property, TemperatureDividesTheScale) {
  for (const std::string& score : families()) {
    for (const WeightingDef* weighting : weighting_table()) {
      Call x = call(kPropertySizes, {score_for(score, kPropertySizes),
                                     {},
                                     {.def = weighting,
                                      .numbers = generate::numbers(weighting),
                                      .temperature = 2.0f,
                                      .seed = 3}});
      x.attention.score.scale = 0.5f;
      const Results hot = results(x);
      x.attention.weighting.temperature = 1.0f;
      x.attention.score.scale = 0.25f;
      expect_near(results(x), hot, kSame, {2e-5, 1e-5}, score + " " + weighting->name);
    }
  }
}

TEST(Property, AColdSoftmaxIsArgmax) {
  Call x = call(kPropertySizes, {.weighting = weightings::softmax(1e-4f)});
  const std::vector<float> cold = context_of(x);
  x.attention.weighting = weightings::argmax();
  expect_near(cold, context_of(x), {1e-3, 1e-3}, "");
}

// The same numbers as [H,Lq,Lk] matrices, forward and in every gradient but the bias's own shape.
TEST(Property, BiasesByDistanceAreTheirMatrices) {
  const Sizes& n = kPropertySizes;
  const Tensor slopes = Tensor::from({0.5f, 0.25f, 0.125f, 0.0625f}, {4});
  const Tensor table = Tensor::randn({16, 4}, 9);
  const std::vector<std::pair<std::string, Bias>> biases = {
      {"alibi", biases::alibi(slopes, n.Lq, n.Lk)},
      {"t5", biases::t5(table, n.Lq, n.Lk, true, 32)},
      {"t5 causal", biases::t5(table, n.Lq, n.Lk, false, 32)}};
  for (const auto& [name, bias] : biases) {
    for (const char* score : {"scaled_dot", "additive_keras"}) {
      for (const char* mask : {"everything", "causal"}) {
        Call x = call(n, {score_for(score, n), fovea::mask(mask)});
        x.attention.score.bias = bias;
        Results relative = results(x, Ask::context);
        std::vector<float> matrix(static_cast<size_t>(n.H * n.Lq * n.Lk));
        const std::vector<float> rows = bias.table.to_vector();
        for (int64_t h = 0; h < n.H; ++h)
          for (int64_t i = 0; i < n.Lq; ++i)
            for (int64_t j = 0; j < n.Lk; ++j)
              matrix[static_cast<size_t>((h * n.Lq + i) * n.Lk + j)] =
                  rows[static_cast<size_t>(h * (n.Lq + n.Lk - 1) + j - i + n.Lq - 1)];
        x.attention.score.bias = Bias{Tensor::from(matrix, {n.H, n.Lq, n.Lk}), false};
        Results full = results(x, Ask::context);
        // Gradients by distance are sums along the diagonals.
        std::vector<double> sums(n.H * (n.Lq + n.Lk - 1));
        for (int64_t h = 0; h < n.H; ++h)
          for (int64_t i = 0; i < n.Lq; ++i)
            for (int64_t j = 0; j < n.Lk; ++j)
              sums[h * (n.Lq + n.Lk - 1) + j - i + n.Lq - 1] +=
                  full.at("dbias of context")[(h * n.Lq + i) * n.Lk + j];
        expect_near(relative.at("dbias of context"), sums, {2e-5, 1e-5}, name);
        full.erase("dbias of context");
        expect_near(relative, full, {1e-6, 1e-6}, {1e-5, 1e-5}, name);
      }
    }
  }
}

// T5's buckets reach its table: the gradient is the distances' gradient, bucket by bucket.
TEST(Property, ABiasTableLearnsThroughItsBuckets) {
  const Sizes& n = kPropertySizes;
  Tensor table = Tensor::randn({16, 4}, 9);
  table.set_requires_grad();
  Call x = call(n);
  x.attention.score.bias = biases::t5(table, n.Lq, n.Lk, true, 32);
  const Attended a = attend(x.q, x.k, x.v, x.attention);
  EXPECT_EQ(a.plan(), Plan::fused);
  const Tensor context = a.context;
  context.backward(Tensor::randn(context.shape(), 11));
  // Adding one number to every bucket changes no softmax: each head's gradient sums to 0.
  for (const float y : sum(table.grad(), {0}).to_vector()) EXPECT_NEAR(y, 0.0f, 1e-4);
  EXPECT_GT(max(abs(table.grad())).item(), 1e-3f);
}

TEST(Property, RanksTwoAndThreeAreRankFourWithOnes) {
  const Tensor q = Tensor::randn({1, 1, 9, 8}, 1), k = Tensor::randn({1, 1, 13, 8}, 2);
  const Attention a{.mask = masks::causal(), .weighting = weightings::sample(4)};
  const Attended full = attend(q, k, k, a);
  for (const int rank : {2, 3}) {
    const auto less = [rank](const Tensor& t) {
      return rank == 2 ? t.squeeze(0).squeeze(0) : t.squeeze(1);
    };
    const Attended r = attend(less(q), less(k), less(k), a);
    EXPECT_EQ(r.context.rank(), rank);
    EXPECT_EQ(r.weights().rank(), rank);
    EXPECT_EQ(r.entropy().rank(), rank - 1);
    EXPECT_EQ(r.top(3).keys.rank(), rank);
    EXPECT_EQ(r.context.to_vector(), full.context.to_vector());
    EXPECT_EQ(r.weights().to_vector(), full.weights().to_vector());
    EXPECT_EQ(r.chosen().to_ids(), full.chosen().to_ids());
    EXPECT_EQ(r.log_prob().to_vector(), full.log_prob().to_vector());
  }
}

}  // namespace
}  // namespace fovea::tests
