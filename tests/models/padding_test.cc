#include <cmath>

#include "fovea/runtime.h"
#include "models/tiny.h"
#include "tests/host.h"

// What stands past a sentence's end, and beside it, has no influence.
namespace fovea::models::tests {
namespace {

std::vector<Seq2SeqConfig> padded_configs() {
  std::vector<Seq2SeqConfig> all;
  for (const Wiring& wiring : kWirings) {
    for (const Locality locality : {Locality::global, Locality::local_m, Locality::local_p}) {
      for (const char* score : {"additive", "multiplicative", "cosine", "location"}) {
        Seq2SeqConfig c = tiny(wiring);
        c.score = score;
        c.locality = locality;
        c.window = 2;
        c.layers = locality == Locality::global ? 2 : 1;
        c.cell = wiring.fed ? nn::Cell::lstm : nn::Cell::gru;
        all.push_back(c);
      }
    }
  }
  all.push_back(tiny());
  all.back().context = Context::fixed;
  all.push_back(tiny());
  all.back().weighting = "sample";
  return all;
}

struct Learned {
  double nll = 0;
  int64_t tokens = 0;
  std::vector<std::vector<double>> gradients;  // of the sum over tokens
};

Learned learned(const Seq2Seq& m, const Batch& batch, Mode mode = Mode::eval) {
  for (const auto& [name, t] : m.weights.all()) Tensor(t).zero_grad();
  const Loss l = loss(m, batch, {.mode = mode, .seed = 3});
  l.loss.backward();
  Learned result{l.nll, l.tokens, {}};
  for (const auto& [name, t] : m.weights.all()) {
    if (!t.grad()) continue;  // a baseline's, when nothing is drawn
    result.gradients.emplace_back();
    for (const float g : t.grad().to_vector()) {
      result.gradients.back().push_back(static_cast<double>(g) * static_cast<double>(l.tokens));
    }
  }
  return result;
}

void expect_same(const Learned& a, const Learned& b) {
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_NEAR(a.nll, b.nll, 1e-5 * b.nll);
  for (size_t i = 0; i < a.gradients.size(); ++i) {
    for (size_t j = 0; j < a.gradients[i].size(); ++j) {
      ASSERT_NEAR(a.gradients[i][j], b.gradients[i][j], 2e-5 + 5e-5 * std::abs(b.gradients[i][j]));
    }
  }
}

TEST(Padding, ABatchIsItsSentences) {
  for (const Seq2SeqConfig& c : padded_configs()) {
    SCOPED_TRACE(named(c));
    const Seq2Seq m = model_of(c);
    Learned apart;
    for (const Sentence& s : sentences()) {
      const Learned one = learned(m, batch_of({s}));
      apart.nll += one.nll;
      apart.tokens += one.tokens;
      if (apart.gradients.empty()) {
        apart.gradients = one.gradients;
        continue;
      }
      for (size_t i = 0; i < one.gradients.size(); ++i) {
        for (size_t j = 0; j < one.gradients[i].size(); ++j) {
          apart.gradients[i][j] += one.gradients[i][j];
        }
      }
    }
    const Learned together = learned(m, batch_of(sentences()));
    expect_same(together, apart);
    expect_same(learned(m, batch_of(sentences(), {.more = 2})), together);
  }
}

TEST(Padding, IsNotRead) {
  for (const Seq2SeqConfig& c : padded_configs()) {
    SCOPED_TRACE(named(c));
    const Seq2Seq m = model_of(c);
    const Learned zeros = learned(m, batch_of(sentences()));
    const Learned others = learned(m, batch_of(sentences(), {.id = 9}));
    EXPECT_EQ(zeros.nll, others.nll);
    // The gradients of ids 0 and 9 too: what is not read learns nothing.
    EXPECT_EQ(zeros.gradients, others.gradients);
  }
}

// Nor is anything learned from what was drawn there.
TEST(Padding, IsNotReadByHardAttention) {
  for (const Wiring& wiring : kWirings) {
    SCOPED_TRACE(wiring.name);
    Seq2SeqConfig c = tiny(wiring);
    c.weighting = "sample";
    const Seq2Seq m = model_of(c);
    const Learned zeros = learned(m, batch_of(sentences()), Mode::train);
    const Learned others = learned(m, batch_of(sentences(), {.id = 9}), Mode::train);
    EXPECT_EQ(zeros.nll, others.nll);
    EXPECT_EQ(zeros.gradients.size(), m.weights.all().size());
    EXPECT_EQ(zeros.gradients, others.gradients);
  }
}

void expect_same(const Decoded& a, const Decoded& b) {
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.ended, b.ended);
  EXPECT_NEAR(a.score, b.score, 1e-5 * (1 + std::abs(b.score)));
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (size_t t = 0; t < a.weights.size(); ++t) {
    ASSERT_EQ(a.weights[t].size(), b.weights[t].size());
    for (size_t j = 0; j < a.weights[t].size(); ++j) {
      ASSERT_NEAR(a.weights[t][j], b.weights[t][j], 1e-5);
    }
  }
}

TEST(Padding, ADecodedBatchIsItsSentences) {
  for (const Seq2SeqConfig& c : padded_configs()) {
    SCOPED_TRACE(named(c));
    const Seq2Seq m = model_of(c, 3);
    const bool attends = c.context == Context::attention;
    for (const int64_t beam : {1, 3}) {
      const DecodeConfig how{.beam = beam, .n_best = beam, .weights = attends};
      const Batch batch = batch_of(sentences(), {.more = 3, .id = 7});
      const auto together = decode(m, batch.source, batch.source_lengths, how);
      ASSERT_EQ(together.size(), sentences().size());
      for (size_t i = 0; i < together.size(); ++i) {
        const Batch one = batch_of({sentences()[i]});
        const auto alone = decode(m, one.source, one.source_lengths, how).front();
        ASSERT_EQ(together[i].size(), alone.size());
        for (size_t n = 0; n < alone.size(); ++n) expect_same(together[i][n], alone[n]);
      }
    }
  }
}

// A model that never ends: each sentence is cut at its own limit.
TEST(Padding, LimitsAreASentencesOwn) {
  Seq2Seq m = model_of(tiny());
  const NoGrad off;
  test::edit<float>(m.output.bias, [](float* bias) { bias[kEnd] = -100.0f; });
  const Batch batch = batch_of(sentences(), {.more = 4});
  for (const int64_t beam : {1, 2}) {
    const auto all = decode(m, batch.source, batch.source_lengths, {.beam = beam});
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i].front().tokens.size(), 2 * sentences()[i].source.size() + 10);
      EXPECT_FALSE(all[i].front().ended);
    }
  }
}

TEST(Padding, ThreadsChangeNothing) {
  std::vector<Sentence> many;
  for (size_t i = 0; i < 24; ++i) many.push_back(sentences()[i % 3]);
  const Batch batch = batch_of(many);
  std::vector<Seq2SeqConfig> some = {tiny(), tiny(kWirings[1]), tiny(kWirings[2]), tiny()};
  some[1].score = "location";
  some[2].locality = Locality::local_p;
  some[3].weighting = "sample";
  for (Seq2SeqConfig& c : some) {
    SCOPED_TRACE(named(c));
    c.embedding = c.hidden = 40;  // enough to be shared
    const Seq2Seq m = model_of(c);
    const DecodeConfig how{.beam = 4, .n_best = 4, .longest = 8, .weights = true};
    set_threads(1);
    const Learned one = learned(m, batch);
    const auto decoded = decode(m, batch.source, batch.source_lengths, how);
    for (const int n : {2, 4}) {
      set_threads(n);
      const Learned more = learned(m, batch);
      EXPECT_EQ(more.nll, one.nll);
      EXPECT_EQ(more.gradients, one.gradients);
      const auto again = decode(m, batch.source, batch.source_lengths, how);
      for (size_t i = 0; i < again.size(); ++i) {
        ASSERT_EQ(again[i].size(), decoded[i].size());
        for (size_t k = 0; k < again[i].size(); ++k) {
          EXPECT_EQ(again[i][k].tokens, decoded[i][k].tokens);
          EXPECT_EQ(again[i][k].score, decoded[i][k].score);
          EXPECT_EQ(again[i][k].weights, decoded[i][k].weights);
        }
      }
    }
  }
  set_threads(1);
}

}  // namespace
}  // namespace fovea::models::tests
