#include "fovea/captioner.h"

#include <gtest/gtest.h>

#include <cmath>

#include "fovea/ops.h"
#include "fovea/train.h"
#include "models/tiny.h"
#include "tests/slopes.h"

namespace fovea::models::tests {
namespace {

using test::error_of;
using test::has;

CaptionerConfig small_captioner() {
  CaptionerConfig c;
  c.height = c.width = 8;
  c.features = 6;
  c.stride = 2;
  c.depth = 0;
  c.target_vocabulary = kVocabulary;
  c.embedding = 5;
  c.hidden = 7;
  c.gate = true;
  return c;
}

CaptionBatch some_batch(const CaptionerConfig& c, uint64_t seed = 5) {
  const Batch words = batch_of(sentences());
  const int64_t B = words.target_in.size(1);
  return {.images = sigmoid(Tensor::randn({B, c.channels, c.height, c.width}, seed)),
          .target_in = words.target_in,
          .target_out = words.target_out};
}

double eval_loss(const Captioner& m, const CaptionBatch& batch) {
  const NoGrad off;
  return static_cast<double>(loss(m, batch, {.mode = Mode::eval}).loss.item());
}

void expect_slopes(const Captioner& m, const CaptionBatch& batch) {
  for (const nn::NormedConv& conv : m.convs) {  // away from the corner of relu, where slopes jump
    const NoGrad off;
    Tensor(conv.scale).fill_(0.2f);
    Tensor(conv.shift).fill_(3.0f);
  }
  for (const auto& [name, t] : m.weights.learned()) Tensor(t).zero_grad();
  loss(m, batch, {.mode = Mode::eval}).loss.backward();
  Tensors weights = m.weights.learned();
  std::erase_if(weights, [](const auto& one) { return one.first.starts_with("baseline"); });
  test::expect_slopes(weights, [&] { return eval_loss(m, batch); }, {.seed = 77, .absolute = 1e-3});
}

TEST(Captioner, GradientsAreSlopes) {
  for (const Order order : {Order::bahdanau, Order::luong}) {
    for (const nn::Cell cell : {nn::Cell::gru, nn::Cell::lstm}) {
      CaptionerConfig c = small_captioner();
      c.order = order;
      c.cell = cell;
      expect_slopes(captioner(c, 3), some_batch(c));
    }
  }
  CaptionerConfig fixed = small_captioner();
  fixed.context = Context::fixed;
  fixed.gate = false;
  expect_slopes(captioner(fixed, 3), some_batch(fixed));
}

TEST(Captioner, KnowsHowFarAPlaceSees) {
  CaptionerConfig c = small_captioner();
  constexpr int64_t kSide = 64;
  c.height = c.width = kSide;
  for (const auto& [stride, depth] : {std::pair<int64_t, int64_t>{2, 0}, {4, 0}, {4, 1}, {8, 1}}) {
    c.stride = stride;
    c.depth = depth;
    const Captioner m = captioner(c, 1);
    const NoGrad off;
    const Tensor base = sigmoid(Tensor::randn({1, 3, kSide, kSide}, 3));
    const int64_t Y = rows_of(c), middle = Y / 2;
    int64_t seen = 0;
    for (int64_t x = 0; x < kSide; ++x) {
      std::vector<float> pixels = base.to_vector();
      for (int64_t y = 0; y < kSide; ++y) {
        for (int64_t channel = 0; channel < 3; ++channel) {
          pixels[static_cast<size_t>((channel * kSide + y) * kSide + x)] += 5.0f;
        }
      }
      const Tensor changed =
          grid_of(m, Tensor::from(pixels, {1, 3, kSide, kSide})) - grid_of(m, base);  // [1,S,F]
      const Tensor columns = changed.reshape({Y, Y, c.features}).select(1, middle);
      seen += max(abs(columns)).item() > 0;
    }
    EXPECT_EQ(seen, reach_of(c)) << stride << ", " << depth;
  }
}

// Equal pixels at different places are not the same, even in the mean over all of them.
TEST(Captioner, KnowsWhereAThingIs) {
  CaptionerConfig c = small_captioner();
  const Captioner m = captioner(c, 1);
  const NoGrad off;
  const auto mean_of = [&](size_t at) {
    std::vector<float> pixels(3 * 64, 0.5f);
    for (size_t channel = 0; channel < 3; ++channel) pixels[channel * 64 + at] = 1.0f;
    return mean(grid_of(m, Tensor::from(pixels, {1, 3, 8, 8})), {1});
  };
  EXPECT_GT(max(abs(mean_of(3 * 8 + 3) - mean_of(5 * 8 + 5))).item(), 1e-3f);
}

TEST(Captioner, RefusesSettingsOutOfRange) {
  const auto error = [](auto change) {
    CaptionerConfig c = small_captioner();
    change(c);
    return error_of([&] { captioner(c, 1); });
  };
  EXPECT_TRUE(has(error([](auto& c) { c.stride = 0; }), "stride must be 2, 4, 8, 16 or 32"));
  EXPECT_TRUE(has(error([](auto& c) { c.stride = 3; }), "stride must be 2, 4, 8, 16 or 32"));
  EXPECT_TRUE(has(error([](auto& c) { c.height = 9; }), "not a multiple of the stride"));
  EXPECT_TRUE(has(error([](auto& c) { c.features = 0; }), "features must be in"));
  EXPECT_TRUE(has(error([](auto& c) { c.doubly = -1; }), "doubly must be in"));
  EXPECT_TRUE(has(error([](auto& c) { c.context = Context::fixed; }), "a gate needs attention"));
  const CaptionerConfig c = small_captioner();
  EXPECT_TRUE(has(error_of([&] {
                    decode(captioner(c, 1), Tensor::zeros({1, 3, 8, 10}));
                  }),
                  "expected [B,3,8,8]"));
}

// Places that another network made are the grid, but for where they are and what `depth` adds.
TEST(Captioner, TakesPlacesThatAreGiven) {
  CaptionerConfig c = small_captioner();
  c.stride = 1;
  c.depth = 0;
  c.height = 2, c.width = 3, c.channels = c.features = 5;
  const Captioner m = captioner(c, 1);
  const Tensor places = Tensor::randn({1, 5, 2, 3}, 3);
  EXPECT_EQ(maps_of(m, places).to_vector(), places.to_vector());
  EXPECT_TRUE(m.convs.empty());
  EXPECT_EQ(reach_of(c), 1);
  EXPECT_EQ(decode(m, places, {.weights = true})[0][0].weights.at(0).size(), 6u);
  c.depth = 1;
  EXPECT_EQ(captioner(c, 1).convs.size(), 1u);
  EXPECT_EQ(maps_of(captioner(c, 1), places).shape(), places.shape());
  c.channels = 3;
  EXPECT_TRUE(has(error_of([&] { captioner(c, 1); }), "channels are the features; found 3 and 5"));
}

// λ Σ_ij (1 − Σ_t a_tij)² by the weights that an intervention sees, padding left out.
TEST(Captioner, ThePenaltyIsItsFormula) {
  CaptionerConfig c = small_captioner();
  c.doubly = 0.0f;
  const CaptionBatch batch = some_batch(c);
  std::vector<std::vector<float>> seen;
  const auto keep = [&](const Weighed& w) {
    seen.push_back(w.weights.to_vector());
    return w.weights;
  };
  const LossConfig train{{}, Mode::train};
  const Loss plain = loss(captioner(c, 3), batch, train, keep);
  c.doubly = 0.5f;
  const Loss penalised = loss(captioner(c, 3), batch, train);
  const std::vector<int64_t> target = batch.target_out.to_ids();
  const size_t B = 3, S = 16;
  double penalty = 0;
  for (size_t b = 0; b < B; ++b) {
    for (size_t s = 0; s < S; ++s) {
      double total = 0;
      for (size_t t = 0; t < seen.size(); ++t) {
        if (target[t * B + b] != 0) total += static_cast<double>(seen[t][b * S + s]);
      }
      penalty += 0.5 * (1 - total) * (1 - total);
    }
  }
  EXPECT_NEAR(penalised.loss.item() - plain.loss.item(), penalty / double(plain.tokens), 1e-4);
}

TEST(Captioner, WithoutAGateContextsAreWhole) {
  CaptionerConfig c = small_captioner();
  Captioner m = captioner(c, 3);
  {
    const NoGrad off;
    m.gate.weight.fill_(0.0f);
    m.gate.bias.fill_(20.0f);  // β = 1
  }
  c.gate = false;
  const Captioner without = captioner(c, 3);
  EXPECT_NEAR(eval_loss(m, some_batch(c)), eval_loss(without, some_batch(c)), 1e-5);
}

TEST(Captioner, DecodesWhatItSaysItIsWorth) {
  for (const char* weighting : {"softmax", "sample"}) {
    CaptionerConfig c = small_captioner();
    c.weighting = weighting;
    c.longest_caption = 6;
    const Captioner m = captioner(c, 4);
    const CaptionBatch batch = some_batch(c);
    const auto all = decode(m, batch.images, {.beam = 3, .n_best = 2, .weights = true});
    ASSERT_EQ(all.size(), 3u);
    for (size_t b = 0; b < all.size(); ++b) {
      const Decoded& best = all[b].front();
      EXPECT_LE(best.tokens.size(), 6u);
      for (const std::vector<float>& row : best.weights) {
        ASSERT_EQ(row.size(), 16u);
        float total = 0;
        for (const float w : row) total += w;
        EXPECT_NEAR(total, 1, 1e-5);
      }
      if (!best.ended) continue;
      std::vector<int64_t> out = best.tokens, in = {kBegin};
      in.insert(in.end(), out.begin(), out.end());
      out.push_back(kEnd);
      const auto T = static_cast<int64_t>(out.size());
      const CaptionBatch one{.images = batch.images.slice(0, int64_t(b), int64_t(b) + 1),
                             .target_in = Tensor::from_ids(in, {T, 1}),
                             .target_out = Tensor::from_ids(out, {T, 1})};
      EXPECT_NEAR(-eval_loss(m, one), best.score, 1e-4);
    }
  }
}

// A few images by heart, by every way of looking.
TEST(Captioner, LearnsAFewCaptions) {
  struct Way {
    Context context;
    const char* weighting;
  };
  for (const Way& way : {Way{Context::attention, "softmax"}, Way{Context::attention, "sample"},
                         Way{Context::fixed, "softmax"}}) {
    CaptionerConfig c = small_captioner();
    c.context = way.context;
    c.weighting = way.weighting;
    c.gate = way.context == Context::attention;
    c.features = 16;
    c.hidden = 24;
    c.doubly = 0.001f;
    const Captioner m = captioner(c, 4);
    const CaptionBatch batch = some_batch(c);
    train::Optimizer optimizer({}, m.weights.learned());
    const double before = eval_loss(m, batch);
    for (int step = 0; step < 120; ++step) {
      for (const auto& [name, t] : m.weights.learned()) Tensor(t).zero_grad();
      LossConfig how;
      how.seed = static_cast<uint64_t>(step);
      loss(m, batch, how).loss.backward();
      train::clip_by_norm(m.weights.learned(), 1.0f);
      optimizer.step(1e-2f);
    }
    EXPECT_LT(eval_loss(m, batch), before / 4) << way.weighting << name_of(way.context);
  }
}

// What is explained is what is learned: the loss comes of these logits, and these of the maps.
TEST(Captioner, LogitsAreThoseOfTheLoss) {
  for (const Context context : {Context::attention, Context::fixed}) {
    CaptionerConfig c = small_captioner();
    c.context = context;
    c.gate = context == Context::attention;
    const Captioner m = captioner(c, 3);
    const CaptionBatch batch = some_batch(c);
    const NoGrad off;
    const Tensor maps = maps_of(m, batch.images);
    ASSERT_EQ(maps.shape(), (Shape{batch.images.size(0), c.features, rows_of(c), columns_of(c)}));
    const Tensor all = logits(m, grid_of_maps(m, maps), batch.target_in);
    ASSERT_EQ(all.size(2), kVocabulary);
    const Tensor nll = cross_entropy(all, batch.target_out, {.reduction = Reduction::none});
    const Tensor counts = not_equal(batch.target_out, Tensor::zeros({}, DType::i64)).to(DType::f32);
    const float expected = sum(nll * counts).item() / sum(counts).item();
    EXPECT_NEAR(eval_loss(m, batch), static_cast<double>(expected), 1e-5);
  }
}

}  // namespace
}  // namespace fovea::models::tests
