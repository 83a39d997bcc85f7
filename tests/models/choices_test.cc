#include <cmath>

#include "core/random.h"
#include "fovea/train.h"
#include "models/tiny.h"
#include "tests/slopes.h"

// Every score × locality × order × weighting, and what does not go together.
namespace fovea::models::tests {
namespace {

constexpr Locality kLocalities[] = {Locality::global, Locality::local_m, Locality::local_p};

void for_all(const std::vector<std::string>& weightings,
             const std::function<void(const Seq2SeqConfig&)>& f) {
  for (const Wiring& wiring : kWirings) {
    for (const Listed& score : list_scores()) {
      for (const Locality locality : kLocalities) {
        for (const std::string& weighting : weightings) {
          Seq2SeqConfig c = tiny(wiring);
          c.score = score.name;
          c.locality = locality;
          c.weighting = weighting;
          c.window = 1;
          c.longest_source = 9;
          SCOPED_TRACE(named(c));
          f(c);
        }
      }
    }
  }
}

std::vector<std::string> all_weightings() {
  std::vector<std::string> names;
  for (const Listed& w : list_weightings()) names.push_back(w.name);
  return names;
}

float largest(const Tensor& t) { return max(abs(t.detach()), {0, 1}).item(); }

// A bilinear score is a dot product with projected keys: they start alike.
TEST(Choices, MultiplicativeStartsAsDotDoes) {
  Seq2SeqConfig c = tiny(kWirings[0]);
  c.hidden = 40;
  c.score = "dot";
  const float dot = largest(seq2seq(c, 1).look.keys.weight);
  c.score = "multiplicative";
  const Tensor w = seq2seq(c, 1).look.score.at("w");
  EXPECT_EQ(w.shape(), (Shape{40, 80}));
  EXPECT_NEAR(largest(w) / dot, 1.0, 0.02);
}

// The third sentence has two source tokens and five steps: a window of 1 leaves it nothing to see.
TEST(Choices, LossAndGradientsAreFinite) {
  int64_t combinations = 0;
  for_all(all_weightings(), [&](const Seq2SeqConfig& c) {
    ++combinations;
    const Seq2Seq m = model_of(c);
    const Loss l = loss(m, batch_of(sentences()), {.dropout = 0.1f, .seed = 5});
    ASSERT_TRUE(all_finite(l.loss));
    ASSERT_TRUE(std::isfinite(l.nll));
    ASSERT_GT(l.nll, 0);
    ASSERT_EQ(l.tokens, 15);
    l.loss.backward();
    for (const auto& [name, t] : m.weights.all()) {
      const bool without = name.starts_with("baseline") && c.weighting != "sample";
      ASSERT_EQ(t.grad().defined(), !without) << name;
      if (!without) {
        ASSERT_TRUE(all_finite(t.grad())) << name;
      }
    }
    ASSERT_TRUE(std::isfinite(loss(m, batch_of(sentences()), {.mode = Mode::eval}).nll));
  });
  EXPECT_GE(combinations, 10 * 3 * 3 * 8);
}

double eval_loss(const Seq2Seq& m, const Batch& batch) {
  const NoGrad off;
  return static_cast<double>(loss(m, batch, {.mode = Mode::eval}).loss.item());
}

void expect_slopes(const Seq2Seq& m, const Batch& batch) {
  for (const auto& [name, t] : m.weights.all()) Tensor(t).zero_grad();
  loss(m, batch, {.mode = Mode::eval}).loss.backward();
  Tensors weights = m.weights.all();
  std::erase_if(weights, [](const auto& one) { return one.first.starts_with("baseline"); });
  test::expect_slopes(weights, [&] { return eval_loss(m, batch); },
                      {.seed = 77, .absolute = 4e-4, .relative = 4e-3});
}

// Predicted windows end at a jump, so theirs are wider than the source here.
TEST(Choices, GradientsAreSlopes) {
  for_all({"softmax"}, [](Seq2SeqConfig c) {
    if (c.locality == Locality::local_p) c.window = 9;
    expect_slopes(model_of(c, 4, 0.4f), batch_of(sentences()));
  });
  for (const Wiring& wiring : kWirings) {
    for (const char* weighting : {"entmax15", "sigmoid", "none"}) {
      Seq2SeqConfig c = tiny(wiring);
      c.weighting = weighting;
      SCOPED_TRACE(named(c));
      expect_slopes(model_of(c, 4, 0.4f), batch_of(sentences()));
    }
  }
}

TEST(Choices, GradientsAreSlopesOfEveryCell) {
  for (const Wiring& wiring : kWirings) {
    for (const nn::Cell cell : {nn::Cell::rnn, nn::Cell::gru, nn::Cell::lstm}) {
      for (const bool bidirectional : {false, true}) {
        Seq2SeqConfig c = tiny(wiring);
        c.cell = cell;
        c.bidirectional = bidirectional;
        c.layers = 2;
        SCOPED_TRACE(std::string(wiring.name) + ", " + name_of(cell));
        expect_slopes(model_of(c, 4, 0.4f), batch_of(sentences()));
      }
    }
  }
}

TEST(Choices, EveryoneLearnsABatch) {
  const std::vector<std::string> learn = {"softmax", "sparsemax", "sample", "gumbel", "argmax"};
  for_all(learn, [](const Seq2SeqConfig& c) {
    if (c.weighting != "softmax" && c.score != "additive") return;
    const Seq2Seq m = seq2seq(c, 1);
    const Batch batch = batch_of(sentences());
    const double before = eval_loss(m, batch);
    train::Optimizer adam({}, m.weights.all());
    for (uint64_t step = 0; step < 25; ++step) {
      for (const auto& [name, t] : m.weights.all()) Tensor(t).zero_grad();
      loss(m, batch, {.seed = step}).loss.backward();
      adam.step(0.02f);
    }
    ASSERT_LT(eval_loss(m, batch), 0.9 * before);  // of seven seeds, the worst: 0.73
  });
}

// ---- What cannot be -----------------------------------------------------------------------------

TEST(Choices, ASourceLongerThanTheLocationScoreSaysSo) {
  for (const Wiring& wiring : kWirings) {
    Seq2SeqConfig c = tiny(wiring);
    c.score = "location";
    c.longest_source = 6;
    const Seq2Seq m = model_of(c);
    const Batch batch = batch_of(sentences());
    const auto says_so = [](const std::string& message) {
      EXPECT_NE(message.find("longest_source"), std::string::npos) << message;
      EXPECT_NE(message.find('6'), std::string::npos) << message;
      EXPECT_NE(message.find('7'), std::string::npos) << message;
    };
    says_so(error_of([&] { loss(m, batch); }));
    says_so(error_of([&] { decode(m, batch.source, batch.source_lengths); }));
    const Batch shorter = batch_of({sentences()[0], sentences()[2]});
    EXPECT_EQ(error_of([&] { loss(m, shorter); }), "no error");
  }
}

TEST(Choices, SizesOutOfRangeAreNamed) {
  const auto refused = [](const char* field, int64_t Seq2SeqConfig::*member,
                          std::initializer_list<int64_t> values) {
    for (const int64_t value : values) {
      Seq2SeqConfig c = tiny();
      c.*member = value;
      for (const std::string& message :
           {error_of([&] { check(c); }), error_of([&] { seq2seq(c, 1); })}) {
        EXPECT_NE(message.find(std::string(field) + " must be in ["), std::string::npos) << message;
        EXPECT_NE(message.find("found " + std::to_string(value)), std::string::npos) << message;
      }
    }
  };
  const int64_t huge = int64_t{1} << 62;
  refused("layers", &Seq2SeqConfig::layers, {0, -1, 65, 1000000000, huge, -huge});
  refused("hidden", &Seq2SeqConfig::hidden, {0, -1, 1000000000, huge});
  refused("embedding", &Seq2SeqConfig::embedding, {0, -1, 1000000000, huge});
  refused("source_vocabulary", &Seq2SeqConfig::source_vocabulary, {0, -5, huge});
  refused("target_vocabulary", &Seq2SeqConfig::target_vocabulary, {0, -5, huge});
  refused("window", &Seq2SeqConfig::window, {0, -1, huge});
  refused("longest_source", &Seq2SeqConfig::longest_source, {0, -1, huge});
  EXPECT_NO_THROW(check(tiny()));
}

TEST(Choices, UnknownNamesAndWhatDoesNotGoTogether) {
  Seq2SeqConfig c = tiny();
  c.score = "additiv";
  EXPECT_NE(error_of([&] { check(c); }).find("additive"), std::string::npos);
  c = tiny();
  c.weighting = "hardmax";
  EXPECT_NE(error_of([&] { check(c); }), "no error");
  c = tiny();
  c.input_feeding = true;
  EXPECT_NE(error_of([&] { check(c); }).find("luong"), std::string::npos);
  c = tiny(kWirings[2]);
  c.context = Context::fixed;
  EXPECT_NE(error_of([&] { check(c); }).find("attention"), std::string::npos);
  EXPECT_NE(error_of([] { order("baroque"); }).find("bahdanau, luong"), std::string::npos);
  for (const Order o : {Order::bahdanau, Order::luong}) EXPECT_EQ(order(name_of(o)), o);
  for (const Context x : {Context::fixed, Context::attention}) EXPECT_EQ(context(name_of(x)), x);
  for (const Locality l : kLocalities) EXPECT_EQ(locality(name_of(l)), l);
}

TEST(Choices, AFixedContextWorksInEitherOrder) {
  for (const Wiring& wiring : {kWirings[0], kWirings[1]}) {
    Seq2SeqConfig c = tiny(wiring);
    c.context = Context::fixed;
    c.score = "no score is looked up";
    expect_slopes(model_of(c, 4, 0.4f), batch_of(sentences()));
  }
}

}  // namespace
}  // namespace fovea::models::tests
