#include "fovea/look.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/tiny.h"

// A look by itself, at keys and values that no translator made; and every look of a translator
// through an intervention.
namespace fovea::models::tests {
namespace {

constexpr int64_t kB = 3, kS = 6, kT = 4, kQuery = 5, kKey = 7, kValue = 4;
const std::vector<int64_t> kLengths = {6, 3, 0};

struct Scene {
  LookConfig config;
  nn::Weights weights{3};
  LookWeights look;
  LookSource source;
  Tensor queries = Tensor::randn({kB, kT, kQuery}, 11);

  explicit Scene(const LookConfig& c) : config(c) {
    look = look_weights(weights, "eye.", c, {.query = kQuery, .key = kKey, .hidden = 6});
    uint64_t seed = 40;
    const NoGrad off;
    for (const auto& [name, t] : weights.all()) {
      Tensor(t).copy_(Tensor::randn(t.shape(), ++seed));
    }
    source = {.keys = Tensor::randn({kB, kS, kKey}, 1),
              .values = Tensor::randn({kB, kS, kValue}, 2),
              .lengths = Tensor::from_ids(kLengths, {kB})};
  }
  Looker looker(const Intervention& i = {}) const {
    return {config, look, source, {.keep_weights = true, .intervention = i}};
  }
};

// Context and weights of all queries, at once or step by step: [B,T,·].
struct Seen {
  Tensor context, weights;
};
Seen at_once(const Scene& s, const Intervention& i = {}) {
  const Look look = s.looker(i).all(s.queries);
  return {look.context, look.weights};
}
Seen in_steps(const Scene& s, const Intervention& i = {}) {
  Looker looker = s.looker(i);
  std::vector<Tensor> contexts, weights;
  for (int64_t t = 0; t < kT; ++t) {
    const Look look = looker.step(s.queries.select(1, t), t);
    contexts.push_back(look.context);
    weights.push_back(look.weights);
  }
  return {stack(contexts, 1), stack(weights, 1)};
}

void expect_near(const Tensor& a, const Tensor& b, float tolerance = 2e-6f) {
  ASSERT_EQ(a.shape(), b.shape());
  const auto x = a.to_vector(), y = b.to_vector();
  for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], tolerance * (1 + std::abs(y[i])));
}

std::vector<LookConfig> look_configs(const std::vector<std::string>& weightings = {"softmax"}) {
  std::vector<LookConfig> all;
  for (const Listed& score : list_scores()) {
    for (const Locality l : {Locality::global, Locality::local_m, Locality::local_p}) {
      for (const std::string& w : weightings) all.push_back({score.name, l, 2, w, kS});
    }
  }
  return all;
}
std::string named_look(const LookConfig& c) {
  return c.score + ", " + name_of(c.locality) + ", " + c.weighting;
}

std::vector<float> row_of(const Tensor& t, int64_t b, int64_t i) {
  return t.select(0, b).select(0, i).to_vector();
}

TEST(Look, StepsAreAllAtOnce) {
  for (const LookConfig& c : look_configs({"softmax", "sparsemax", "argmax"})) {
    SCOPED_TRACE(named_look(c));
    const Scene s(c);
    const Seen once = at_once(s), steps = in_steps(s);
    expect_near(steps.context, once.context, 1e-5f);
    expect_near(steps.weights, once.weights, 1e-5f);
    expect_near(once.context, matmul(once.weights, s.source.values), 1e-5f);
    for (const float x : row_of(once.context, 2, 0)) EXPECT_EQ(x, 0.0f);
  }
}

TEST(Look, WeightsAreNamedUnderAPrefix) {
  nn::Weights w;
  LookConfig c{.score = "dot", .locality = Locality::local_p, .weighting = "sample"};
  look_weights(w, "", c, {.query = 4, .key = 6, .hidden = 5});
  c.score = "additive";
  look_weights(w, "decoder.2.", c, {.query = 4, .key = 6, .hidden = 5});
  std::vector<std::string> names;
  for (const auto& [name, t] : w.all()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{
                       "baseline.bias", "baseline.weight", "decoder.2.baseline.bias",
                       "decoder.2.baseline.weight", "decoder.2.score.b", "decoder.2.score.u",
                       "decoder.2.score.w_k", "decoder.2.score.w_q", "decoder.2.window.u_p",
                       "decoder.2.window.w_p", "keys.weight", "window.u_p", "window.w_p"}));
  EXPECT_EQ(w.all().at("keys.weight").shape(), (Shape{4, 6}));
  EXPECT_EQ(w.all().at("decoder.2.score.w_k").shape(), (Shape{5, 6}));
  EXPECT_EQ(w.all().at("window.w_p").shape(), (Shape{5, 4}));
}

// ---- Replaced ----------------------------------------------------------------------------------

TEST(Intervention, UniformIsTheMeanOverTheLength) {
  for (LookConfig c : look_configs()) {
    if (c.locality != Locality::global) continue;
    SCOPED_TRACE(named_look(c));
    const Scene s(c);
    for (const Seen& seen :
         {at_once(s, interventions::uniform()), in_steps(s, interventions::uniform())}) {
      for (int64_t b = 0; b < kB; ++b) {
        const int64_t n = kLengths[static_cast<size_t>(b)];
        const Tensor values = s.source.values.select(0, b).slice(0, 0, n);
        const Tensor mean =
            n > 0 ? sum(values, {0}) / static_cast<float>(n) : Tensor::zeros({kValue});
        for (int64_t t = 0; t < kT; ++t) {
          expect_near(seen.context.select(0, b).select(0, t), mean);
        }
      }
    }
  }
}

// Where windows hide keys, they stay hidden.
TEST(Intervention, ReplacesPermittedKeysAlone) {
  for (const LookConfig& c : look_configs()) {
    SCOPED_TRACE(named_look(c));
    const Scene s(c);
    const Seen own = at_once(s);
    for (const Seen& seen :
         {at_once(s, interventions::uniform()), in_steps(s, interventions::uniform())}) {
      for (int64_t b = 0; b < kB; ++b) {
        for (int64_t t = 0; t < kT; ++t) {
          const std::vector<float> before = row_of(own.weights, b, t);
          const auto n = std::count_if(before.begin(), before.end(), [](float w) { return w > 0; });
          std::vector<float> uniform;
          for (const float w : before) uniform.push_back(w > 0 ? 1.0f / static_cast<float>(n) : 0);
          EXPECT_EQ(row_of(seen.weights, b, t), uniform);
        }
      }
      expect_near(seen.context, matmul(seen.weights, s.source.values));
    }
  }
}

TEST(Intervention, PermutedKeepsARowsWeights) {
  int64_t moved = 0;
  for (const LookConfig& c : look_configs({"softmax", "sigmoid"})) {
    SCOPED_TRACE(named_look(c));
    const Scene s(c);
    const Seen own = at_once(s), once = at_once(s, interventions::permuted(5));
    expect_near(in_steps(s, interventions::permuted(5)).weights, once.weights, 1e-5f);
    expect_near(once.context, matmul(once.weights, s.source.values), 1e-5f);
    for (int64_t b = 0; b < kB; ++b) {
      for (int64_t t = 0; t < kT; ++t) {
        std::vector<float> before = row_of(own.weights, b, t), after = row_of(once.weights, b, t);
        for (size_t j = static_cast<size_t>(kLengths[static_cast<size_t>(b)]); j < kS; ++j) {
          EXPECT_EQ(after[j], 0.0f);
        }
        moved += before != after;
        std::sort(before.begin(), before.end());
        std::sort(after.begin(), after.end());
        EXPECT_EQ(before, after);
      }
    }
  }
  EXPECT_GT(moved, 100);
  const Scene s({});
  EXPECT_NE(at_once(s, interventions::permuted(5)).weights.to_vector(),
            at_once(s, interventions::permuted(6)).weights.to_vector());
}

// Each order of three comes as often as the others.
TEST(Intervention, PermutationsAreAllAsLikely) {
  std::map<std::vector<int64_t>, int64_t> count;
  const Scene s({});
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Intervention permuted = interventions::permuted(seed);
    at_once(s, [&](const Weighed& w) {
      const Tensor numbers = Tensor::arange(kS).to(DType::f32).expand(w.weights.shape());
      const Tensor after = permuted({numbers.contiguous(), w.t, w.permitted});
      for (int64_t t = 0; t < kT; ++t) {
        const std::vector<float> row = row_of(after, 1, t);  // three keys
        ++count[{static_cast<int64_t>(row[0]), static_cast<int64_t>(row[1])}];
      }
      return w.weights;
    });
  }
  ASSERT_EQ(count.size(), 6u);
  for (const auto& [order, n] : count) EXPECT_NEAR(n, 200, 70);
}

TEST(Intervention, GivenWeightsGiveTheirContext) {
  for (const LookConfig& c : look_configs()) {
    SCOPED_TRACE(named_look(c));
    const Scene s(c);
    const Tensor given = Tensor::rand({kB, kT, kS}, 9);  // of hidden keys too
    const Seen once = at_once(s, interventions::given(given));
    expect_near(in_steps(s, interventions::given(given)).context, once.context);
    const Tensor zero = Tensor::zeros({});
    const Tensor hidden = equal(at_once(s, interventions::uniform()).weights, zero);
    expect_near(once.context, matmul(where(hidden, zero, given), s.source.values));
  }
}

// The context is the same, and nothing is learned of what the weights were made of.
TEST(Intervention, HeldWeightsHaveNoGradients) {
  const Seq2Seq m = model_of(tiny());
  const Batch batch = batch_of(sentences());
  const auto gradient = [&](const Intervention& how, const char* name) {
    const Loss l = loss(m, batch, {}, how);
    const std::vector<Tensor> inputs{m.weights.all().at(name)};
    const std::vector<float> d = gradients(l.loss, Tensor::scalar(1.0f), inputs)[0].to_vector();
    double size = 0;
    for (const float x : d) size += std::abs(static_cast<double>(x));
    return std::pair(static_cast<double>(l.loss.item()), size);
  };
  const auto own = gradient({}, "score.u"), held = gradient(interventions::held(), "score.u");
  EXPECT_NEAR(own.first, held.first, 1e-5);
  EXPECT_GT(own.second, 1e-6);
  EXPECT_EQ(held.second, 0.0);
  EXPECT_GT(gradient(interventions::held(), "source.weight").second, 1e-3);
}

// What lies past the lengths is not read, whatever weight it is given.
TEST(Intervention, PaddingIsNotRead) {
  for (const LookConfig& c : look_configs()) {
    SCOPED_TRACE(named_look(c));
    Scene s(c);
    const Intervention all[] = {interventions::uniform(), interventions::permuted(2),
                                interventions::given(Tensor::full({kB, kT, kS}, 1.0f)),
                                [](const Weighed& w) { return w.weights; }};
    for (const Intervention& i : all) {
      const Scene clean(c);
      s.source = clean.source;
      const std::vector<float> before = in_steps(s, i).context.to_vector();
      const float nan = std::numeric_limits<float>::quiet_NaN();
      s.source.keys = clean.source.keys.clone();
      s.source.values = clean.source.values.clone();
      for (Tensor* t : {&s.source.keys, &s.source.values}) {
        t->select(0, 1).slice(0, 3, kS).fill_(nan);
        t->select(0, 2).fill_(nan);
      }
      EXPECT_EQ(in_steps(s, i).context.to_vector(), before);
    }
  }
}

TEST(Intervention, WhatCannotBeIsNamed) {
  const Scene s({});
  const auto message = [&](const Intervention& i) { return error_of([&] { in_steps(s, i); }); };
  EXPECT_NE(message([](const Weighed& w) { return w.weights.select(1, 0); }).find("[3, 1, 6]"),
            std::string::npos);
  EXPECT_NE(message([](const Weighed&) { return Tensor(); }).find("undefined"), std::string::npos);
  EXPECT_NE(message(interventions::given(Tensor::zeros({kB, 2, kS}))).find("from step 2"),
            std::string::npos);
  EXPECT_NE(message(interventions::given(Tensor::zeros({2, kT, kS}))).find("[2, 4, 6]"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              interventions::given(Tensor::zeros({2, 3}));
            }).find("[B, T, S]"),
            std::string::npos);
}

// ---- Read and differentiated, in a translator ---------------------------------------------------

std::vector<Seq2SeqConfig> translators() {
  std::vector<Seq2SeqConfig> all;
  for (const Wiring& wiring : kWirings) {
    for (const Locality l : {Locality::global, Locality::local_m, Locality::local_p}) {
      Seq2SeqConfig c = tiny(wiring);
      c.locality = l;
      c.window = 3;
      c.score = l == Locality::local_m ? "dot" : "additive";
      all.push_back(c);
    }
  }
  return all;
}

// The weights of every look, in order.
Intervention reading(std::vector<Tensor>& into) {
  return [&into](const Weighed& w) {
    into.push_back(w.weights);
    return w.weights;
  };
}

TEST(Intervention, ReadingChangesNothing) {
  std::vector<Seq2SeqConfig> all = translators();
  Seq2SeqConfig hard = tiny();
  hard.weighting = "sample";
  all.push_back(hard);
  for (const Seq2SeqConfig& c : all) {
    SCOPED_TRACE(named_look(c));
    const Seq2Seq m = model_of(c, 3);
    const Batch batch = batch_of(sentences());
    const auto gradients_with = [&](const Intervention& i, double& nll) {
      for (const auto& [name, t] : m.weights.all()) Tensor(t).zero_grad();
      const Loss l = loss(m, batch, {.seed = 4}, i);
      l.loss.backward();
      nll = l.nll;
      Tensors found;
      for (const auto& [name, t] : m.weights.all()) found[name] = t.grad().clone();
      return found;
    };
    double plain_nll = 0, read_nll = 0;
    std::vector<Tensor> seen;
    const Tensors plain = gradients_with({}, plain_nll);
    const Tensors read = gradients_with(reading(seen), read_nll);
    EXPECT_NEAR(read_nll, plain_nll, 1e-5 * plain_nll);
    for (const auto& [name, g] : plain) expect_near(read.at(name), g, 2e-5f);
    const int64_t T = batch.target_out.size(0);
    const bool at_once = c.order == Order::luong && !c.input_feeding;
    ASSERT_EQ(static_cast<int64_t>(seen.size()), at_once ? 1 : T);
    const int64_t rows = draws(c) ? 6 : 3;  // each goes two ways
    EXPECT_EQ(seen[0].shape(), (Shape{rows, at_once ? T : 1, batch.source.size(0)}));

    const DecodeConfig how{.beam = 3, .n_best = 3, .weights = true};
    const auto a = decode(m, batch.source, batch.source_lengths, how);
    const auto b = decode(m, batch.source, batch.source_lengths, how, reading(seen));
    for (size_t i = 0; i < a.size(); ++i) {
      for (size_t n = 0; n < a[i].size(); ++n) {
        EXPECT_EQ(a[i][n].tokens, b[i][n].tokens);
        EXPECT_NEAR(a[i][n].score, b[i][n].score, 1e-5);
        EXPECT_EQ(a[i][n].weights.size(), b[i][n].weights.size());
      }
    }
  }
}

// ∂loss/∂weights of one look, against weights that are moved by hand.
TEST(Intervention, GradientsOfReadWeightsAreSlopes) {
  for (const Seq2SeqConfig& c : translators()) {
    SCOPED_TRACE(named_look(c));
    const Seq2Seq m = model_of(c, 3);
    const Batch batch = batch_of(sentences());
    std::vector<Tensor> seen;
    const Loss l = loss(m, batch, {.mode = Mode::eval}, reading(seen));
    const std::vector<Tensor> slopes = gradients(l.loss, Tensor::full({}, 1.0f), seen);
    for (size_t look = 0; look < std::min<size_t>(seen.size(), 3); ++look) {
      const Tensor own = seen[look].detach();
      // Only where there are weights: what is hidden stays so.
      const Tensor d =
          Tensor::randn(own.shape(), 77 + look) * greater(own, Tensor::zeros({})).to(DType::f32);
      const auto moved = [&](float step) {
        const NoGrad off;
        size_t looks = 0;
        return static_cast<double>(loss(m, batch, {.mode = Mode::eval}, [&](const Weighed& w) {
                                     return looks++ == look ? own + d * step : w.weights;
                                   }).loss.item());
      };
      constexpr float kStep = 1e-2f;
      const double slope = (moved(kStep) - moved(-kStep)) / (2 * static_cast<double>(kStep));
      const double along = static_cast<double>(sum(slopes[look] * d).item());
      EXPECT_GT(std::abs(along), 1e-4);
      EXPECT_NEAR(along, slope, 2e-4 + 5e-3 * std::abs(slope)) << look;
    }
  }
}

// Weights that are given learn: the way to an adversary.
TEST(Intervention, GivenWeightsGetGradients) {
  const Seq2Seq m = model_of(tiny(), 3);
  const Batch batch = batch_of(sentences());
  const int64_t T = batch.target_out.size(0), S = batch.source.size(0);
  Tensor given = Tensor::full({3, T, S}, 0.2f);
  given.set_requires_grad();
  loss(m, batch, {.mode = Mode::eval}, interventions::given(given)).loss.backward();
  const std::vector<float> g = given.grad().to_vector();
  EXPECT_GT(std::count_if(g.begin(), g.end(), [](float x) { return x != 0.0f; }), 3 * T);
  for (int64_t j = 2; j < S; ++j) EXPECT_EQ(row_of(given.grad(), 2, 0)[j], 0.0f);  // two tokens
}

TEST(Intervention, InDecodingTheWeightsAreThoseUsed) {
  for (const Seq2SeqConfig& c : translators()) {
    if (c.locality != Locality::global) continue;
    SCOPED_TRACE(named_look(c));
    const Seq2Seq m = model_of(c, 3);
    const Batch batch = batch_of(sentences());
    for (const int64_t beam : {1, 3}) {
      const DecodeConfig how{.beam = beam, .n_best = beam, .longest = 5, .weights = true};
      const auto uniform =
          decode(m, batch.source, batch.source_lengths, how, interventions::uniform());
      const Tensor chosen = Tensor::rand({3, 5, batch.source.size(0)}, 8);
      const auto given =
          decode(m, batch.source, batch.source_lengths, how, interventions::given(chosen));
      for (size_t i = 0; i < uniform.size(); ++i) {
        const size_t S = sentences()[i].source.size();
        const std::vector<float> mean(S, 1.0f / static_cast<float>(S));
        for (const Decoded& d : uniform[i]) {
          for (const auto& row : d.weights) EXPECT_EQ(row, mean);
        }
        for (const Decoded& d : given[i]) {
          for (size_t t = 0; t < d.weights.size(); ++t) {
            std::vector<float> row =
                row_of(chosen, static_cast<int64_t>(i), static_cast<int64_t>(t));
            row.resize(S);
            EXPECT_EQ(d.weights[t], row);
          }
        }
      }
      // A uniform look everywhere is a loss under uniform looks.
      const Decoded& d = uniform[0][0];
      std::vector<int64_t> target = d.tokens;
      if (d.ended) target.push_back(kEnd);
      const NoGrad off;
      const double nll = loss(m, batch_of({{sentences()[0].source, target}}), {.mode = Mode::eval},
                              interventions::uniform())
                             .nll;
      EXPECT_NEAR(d.score * static_cast<double>(target.size()), -nll, 1e-4);
    }
  }
}

}  // namespace
}  // namespace fovea::models::tests
