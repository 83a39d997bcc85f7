#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "fovea/documents.h"
#include "fovea/explain.h"
#include "fovea/ops.h"
#include "fovea/runtime.h"
#include "fovea/seq2seq.h"
#include "fovea/transformer.h"
#include "tests/errors.h"
#include "tests/models/tiny.h"

namespace fovea::explain {
namespace {

using test::error_of;
using test::has;

// A model on one input: what is explained, and where.
struct Explained {
  std::string name;
  Outputs outputs;
  Tensor x;
};

constexpr int64_t kVocabulary = 9;
const std::vector<int64_t> kSource = {4, 7, 5, 8, 3}, kTargetIn = {2, 6, 4, 5};

Tensor column(const std::vector<int64_t>& ids, int64_t rows) {
  const auto L = static_cast<int64_t>(ids.size());
  return Tensor::from_ids(ids, {L, 1}).expand({L, rows}).contiguous();
}

// The sum over the vocabulary, weighed: one number for each step, of all logits.
Tensor one_each(const Tensor& logits) {
  const Tensor weights = Tensor::randn({logits.size(-1)}, 77);
  return sum(log_softmax(logits) * weights, {-1});  // [T,R] or [R,T]
}

Explained recurrent(const char* name, models::Seq2SeqConfig c) {
  c.source_vocabulary = c.target_vocabulary = kVocabulary;
  c.embedding = 4;
  c.hidden = 6;
  const auto m = std::make_shared<models::Seq2Seq>(models::tests::model_of(c));
  return {name,
          [m](const Tensor& rows) {
            const int64_t R = rows.size(0);
            const std::vector<int64_t> lengths(static_cast<size_t>(R), rows.size(1));
            const Tensor logits = models::logits(
                *m, {rows.transpose(0, 1), Tensor::from_ids(lengths, {R}), column(kTargetIn, R)});
            return one_each(logits).transpose(0, 1);
          },
          m->source(Tensor::from_ids(kSource, {5})).detach()};
}

std::shared_ptr<models::Transformer> transformer(int64_t source) {
  models::TransformerConfig c{.source_vocabulary = source,
                              .target_vocabulary = kVocabulary,
                              .blocks = 2,
                              .depth = 8,
                              .heads = 2};
  auto m = std::make_shared<models::Transformer>(models::transformer(c, 1));
  const NoGrad off;
  uint64_t seed = 5;
  for (const auto& [name, t] : m->weights.all()) {
    Tensor(t).copy_(Tensor::randn(t.shape(), ++seed) * 0.4f);
  }
  return m;
}

Explained reading_and_writing() {
  const auto m = transformer(kVocabulary);
  return {"Transformer",
          [m](const Tensor& rows) {
            const Tensor encoded = models::encode(m->config, m->encoder, rows);
            const Tensor in = column(kTargetIn, rows.size(0)).transpose(0, 1).contiguous();
            return one_each(m->output(models::decode_all(*m, in, models::project(*m, encoded))));
          },
          m->source(Tensor::from_ids(kSource, {5})).detach()};
}

Explained writing() {
  const auto m = transformer(0);
  return {
      "language model",
      [m](const Tensor& rows) { return one_each(m->output(models::decode_embedded(*m, rows))); },
      m->target(Tensor::from_ids(kSource, {5})).detach()};
}

std::vector<Explained> all_models() {
  std::vector<Explained> all;
  for (const nn::Cell cell : {nn::Cell::rnn, nn::Cell::gru, nn::Cell::lstm}) {
    models::Seq2SeqConfig c;
    c.cell = cell;
    c.context = models::Context::fixed;
    all.push_back(recurrent(nn::name_of(cell), c));
  }
  for (const models::Order order : {models::Order::bahdanau, models::Order::luong}) {
    models::Seq2SeqConfig c;
    c.order = order;
    all.push_back(recurrent(order == models::Order::luong ? "luong" : "bahdanau", c));
  }
  all.push_back(reading_and_writing());
  all.push_back(writing());
  return all;
}

std::vector<int64_t> first(int64_t n) {
  std::vector<int64_t> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), int64_t{0});
  return all;
}

// (y(x + h·e) − y(x − h·e)) / 2h for every number of x: [T, S·E].
std::vector<std::vector<double>> central_differences(const Explained& m) {
  constexpr float kStep = 1e-2f;
  const NoGrad off;
  const int64_t n = m.x.numel();
  std::vector<Tensor> rows;
  for (int64_t i = 0; i < n; ++i) {
    for (const float h : {kStep, -kStep}) {
      std::vector<float> moved = m.x.to_vector();
      moved[static_cast<size_t>(i)] += h;
      rows.push_back(Tensor::from(moved, m.x.shape()));
    }
  }
  const Tensor y = m.outputs(stack(rows, 0));  // [2n,T]
  const std::vector<float> v = y.to_vector();
  const auto T = static_cast<size_t>(y.size(1));
  std::vector<std::vector<double>> d(T, std::vector<double>(static_cast<size_t>(n)));
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
    for (size_t t = 0; t < T; ++t) {
      d[t][i] =
          (static_cast<double>(v[2 * i * T + t]) - static_cast<double>(v[(2 * i + 1) * T + t])) /
          (2 * static_cast<double>(kStep));
    }
  }
  return d;
}

TEST(SequentialJacobian, EqualsCentralDifferences) {
  for (const Explained& m : all_models()) {
    const auto expected = central_differences(m);
    const auto T = static_cast<int64_t>(expected.size());
    const int64_t S = m.x.size(0), E = m.x.size(1);
    const SequentialJacobian j = sequential_jacobian(m.outputs, m.x, first(T));
    ASSERT_EQ(j.norm.shape(), (Shape{T, S})) << m.name;
    const std::vector<float> norm = j.norm.to_vector(), total = j.sum.to_vector();
    double largest = 0;
    for (size_t t = 0; t < expected.size(); ++t) {
      for (size_t s = 0; s < static_cast<size_t>(S); ++s) {
        double squares = 0, sums = 0;
        for (size_t e = 0; e < static_cast<size_t>(E); ++e) {
          const double d = expected[t][s * static_cast<size_t>(E) + e];
          squares += d * d, sums += d;
        }
        const size_t at = t * static_cast<size_t>(S) + s;
        const double bound = 1e-3 * std::max(1.0, std::sqrt(squares));
        EXPECT_NEAR(static_cast<double>(norm[at]), std::sqrt(squares), bound)
            << m.name << " " << t << " " << s;
        EXPECT_NEAR(static_cast<double>(total[at]), sums, 2 * bound)
            << m.name << " " << t << " " << s;
        largest = std::max(largest, std::sqrt(squares));
      }
    }
    EXPECT_GT(largest, 0.02) << m.name << " depends on nothing";
  }
}

TEST(SequentialJacobian, IsTheSameInAnyNumberOfRows) {
  for (const Explained& m : all_models()) {
    const auto of = [&](int64_t rows) {
      return sequential_jacobian(m.outputs, m.x, first(4), {.rows = rows, .progress = {}})
          .norm.to_vector();
    };
    const std::vector<float> one = of(1), three = of(3), many = of(64);
    for (size_t i = 0; i < one.size(); ++i) {
      EXPECT_NEAR(one[i], three[i], 1e-5f) << m.name;
      EXPECT_NEAR(one[i], many[i], 1e-5f) << m.name;
    }
  }
}

// What is written later is not seen before.
TEST(SequentialJacobian, OfALanguageModelIsCausal) {
  const Explained m = writing();
  const std::vector<float> norm = sequential_jacobian(m.outputs, m.x, first(5)).norm.to_vector();
  for (size_t t = 0; t < 5; ++t) {
    for (size_t s = 0; s < 5; ++s) {
      EXPECT_EQ(norm[t * 5 + s] == 0.0f, s > t) << t << " " << s;
    }
  }
}

TEST(SequentialJacobian, LeavesNoMemoryBehindAndTellsHowFarItIs) {
  const Explained m = recurrent("gru", {});
  std::vector<double> told;
  const Effort effort{.rows = 1, .progress = [&](double done) { told.push_back(done); }};
  sequential_jacobian(m.outputs, m.x, first(4), effort);
  EXPECT_EQ(told, (std::vector<double>{0.25, 0.5, 0.75, 1.0}));
  const int64_t held = memory_in_use();
  for (int i = 0; i < 50; ++i) sequential_jacobian(m.outputs, m.x, first(4), effort);
  EXPECT_EQ(memory_in_use(), held);
}

TEST(SequentialJacobian, RefusesWhatMakesNoSense) {
  const Explained m = writing();
  EXPECT_TRUE(has(error_of([&] { sequential_jacobian(m.outputs, m.x, first(6)); }),
                  "output 5 is not in 0 … 4"));
  EXPECT_TRUE(has(error_of([&] { sequential_jacobian(m.outputs, Tensor::zeros({3}), first(1)); }),
                  "x must be [S,E], found [3]"));
  const Outputs wrong = [](const Tensor& rows) { return sum(rows, {1, 2}); };
  EXPECT_TRUE(has(error_of([&] { sequential_jacobian(wrong, m.x, first(1)); }),
                  "outputs gave [1] for 1 rows"));
}

}  // namespace
}  // namespace fovea::explain
