#include <algorithm>
#include <cmath>
#include <map>

#include "models/tiny.h"

// Hard attention learns by REINFORCE. Here are three source tokens and two steps, so nine ways to
// look. Going through all of them, written down below, gives the expected loss and its gradient;
// a draw of the library is one of the nine, and so the expectation of its gradient is a sum too.
namespace fovea::models::tests {
namespace {

const Sentence kSentence = {{5, 8, 3}, {6, 3}};
constexpr int64_t kSteps = 2;

struct Path {
  std::vector<int64_t> choices;
  std::vector<Tensor> log_probs, entropies, nlls;  // by step, []
  std::vector<double> baselines;

  double p() const {
    double sum = 0;
    for (const Tensor& t : log_probs) sum += static_cast<double>(t.item());
    return std::exp(sum);
  }
  Tensor nll() const { return nlls[0] + nlls[1]; }
};

// One sentence, an additive score, a GRU.
class AllPaths {
 public:
  explicit AllPaths(const Seq2Seq& m) : m_(m) {
    const Batch batch = batch_of({kSentence});
    const nn::Recurrent::Output encoded = m.encoder(m.source(batch.source));
    states_ = encoded.sequence.squeeze(1);  // [S,C]
    words_ = m.target(batch.target_in).squeeze(1);
    step(tanh(m.initial[0](encoded.last[0].h)), Tensor::zeros({1, m.config.hidden}), {});
  }
  std::vector<Path> paths;

 private:
  Tensor log_p(const Tensor& query) const {  // [S]
    const Tensors& w = m_.look.score;
    const Tensor a = matmul(query, w.at("w_q").transpose(0, 1)) +
                     matmul(states_, w.at("w_k").transpose(0, 1)) + w.at("b");
    return log_softmax(sum(tanh(a) * w.at("u"), {1}));
  }

  Tensor cell(const Tensor& x, const Tensor& h) const {
    const int64_t H = m_.config.hidden;
    const std::vector<Tensor> from_x = split(m_.cells[0].input(x), {H, H, H}, 1);
    const std::vector<Tensor> from_h = split(m_.cells[0].recurrent(h), {H, H, H}, 1);
    const Tensor r = sigmoid(from_x[0] + from_h[0]), z = sigmoid(from_x[1] + from_h[1]);
    const Tensor n = tanh(from_x[2] + r * from_h[2]);
    return (1.0f - z) * n + z * h;
  }

  void step(const Tensor& state, const Tensor& fed, const Path& before) {
    const size_t t = before.choices.size();
    if (t == kSteps) {
      paths.push_back(before);
      return;
    }
    const bool bahdanau = m_.config.order == Order::bahdanau;
    const Tensor y = words_.slice(0, static_cast<int64_t>(t), static_cast<int64_t>(t) + 1);
    Tensor query = state;
    if (!bahdanau) query = cell(m_.config.input_feeding ? concatenate({y, fed}, 1) : y, state);
    const Tensor p = log_p(query);
    const double baseline = static_cast<double>(m_.look.baseline(query).item());
    for (int64_t j = 0; j < states_.size(0); ++j) {
      const Tensor context = states_.slice(0, j, j + 1);
      const Tensor now = bahdanau ? cell(concatenate({y, context}, 1), state) : query;
      std::vector<Tensor> read = {now, context};
      if (bahdanau) read.push_back(y);
      const Tensor out = tanh(m_.readout(concatenate(read, 1)));
      Path path = before;
      path.choices.push_back(j);
      path.log_probs.push_back(p.select(0, j));
      path.entropies.push_back(sum(exp(p) * p) * -1.0f);
      path.nlls.push_back(
          cross_entropy(m_.output(out), Tensor::from_ids(std::vector{kSentence.target[t]}, {1})));
      path.baselines.push_back(baseline);
      step(now, out, path);
    }
  }

  const Seq2Seq& m_;
  Tensor states_, words_;
};

using Gradients = std::map<std::string, std::vector<double>>;

// And none is left behind.
Gradients gradients_of(const Seq2Seq& m, const Tensor& loss) {
  for (const auto& [name, t] : m.weights.all()) Tensor(t).zero_grad();
  loss.backward();
  Gradients found;
  for (const auto& [name, t] : m.weights.all()) {
    const std::vector<float> g =
        t.grad() ? t.grad().to_vector() : std::vector<float>(static_cast<size_t>(t.numel()));
    found[name].assign(g.begin(), g.end());
    Tensor(t).zero_grad();
  }
  return found;
}

Gradients exact_gradient(const Seq2Seq& m) {
  const AllPaths all(m);
  Tensor expected = Tensor::scalar(0.0f);
  for (const Path& path : all.paths) {
    expected = expected + exp(path.log_probs[0] + path.log_probs[1]) * path.nll();
  }
  return gradients_of(m, expected / static_cast<float>(kSteps));
}

LossConfig learning_by(const ReinforceConfig& r) {
  LossConfig c;
  static_cast<ReinforceConfig&>(c) = r;
  return c;
}

const LossConfig kPlain = learning_by({.baseline = Baseline::learned,
                                       .reward = 1.0f,
                                       .entropy = 0.0f,
                                       .discount = 1.0f,
                                       .semi_sampling = 0.0f});
// Each row two ways, so that either counts half.
const LossConfig kTwoWays = learning_by(
    {.baseline = Baseline::expected, .reward = 0.5f, .entropy = 0.0f, .discount = 1.0f});

LossConfig seeded(LossConfig c, uint64_t seed) {
  c.seed = seed;
  return c;
}

// For each path a seed that takes it, and how often `draws` seeds did.
struct Draws {
  std::vector<uint64_t> seed;
  std::vector<int64_t> count;
};
Draws draws_of(const Seq2Seq& m, const std::vector<Path>& paths, uint64_t draws,
               const LossConfig& config = kPlain) {
  const NoGrad off;
  Draws d{std::vector<uint64_t>(paths.size()), std::vector<int64_t>(paths.size())};
  for (uint64_t seed = 0; seed < draws; ++seed) {
    const double nll = loss(m, batch_of({kSentence}), seeded(config, seed)).nll;
    size_t nearest = 0;
    const auto distance = [&](size_t i) {
      return std::abs(static_cast<double>(paths[i].nll().item()) - nll);
    };
    for (size_t i = 0; i < paths.size(); ++i) {
      if (distance(i) < distance(nearest)) nearest = i;
    }
    EXPECT_LT(distance(nearest), 1e-5);
    d.seed[nearest] = seed;
    ++d.count[nearest];
  }
  return d;
}

Seq2SeqConfig hard(const Wiring& wiring) {
  Seq2SeqConfig c = tiny(wiring);
  c.weighting = "sample";
  c.hidden = 4;
  return c;
}

struct Estimate {
  Gradients mean;
  double variance = 0;  // summed over all weights but the baseline's
};
Estimate estimate(const Seq2Seq& m, const AllPaths& all, const Draws& d,
                  const LossConfig& config = kPlain) {
  Estimate e;
  double squares = 0;
  for (size_t i = 0; i < all.paths.size(); ++i) {
    EXPECT_GT(d.count[i], 0) << "a path that was never taken";
    const double p = all.paths[i].p();
    const Tensor l = loss(m, batch_of({kSentence}), seeded(config, d.seed[i])).loss;
    for (const auto& [name, g] : gradients_of(m, l)) {
      std::vector<double>& mean = e.mean[name];
      mean.resize(g.size());
      for (size_t k = 0; k < g.size(); ++k) {
        mean[k] += p * g[k];
        if (!name.starts_with("baseline")) squares += p * g[k] * g[k];
      }
    }
  }
  double of_mean = 0;
  for (const auto& [name, mean] : e.mean) {
    for (const double g : mean) of_mean += name.starts_with("baseline") ? 0 : g * g;
  }
  e.variance = squares - of_mean;
  return e;
}

// With the same weights.
Seq2Seq softened(const Seq2Seq& m) {
  Seq2SeqConfig c = m.config;
  c.weighting = "softmax";
  Seq2Seq soft = seq2seq(c, 1);
  Tensors weights = m.weights.all();
  std::erase_if(weights, [](const auto& w) { return w.first.starts_with("baseline"); });
  soft.weights.load(weights);
  return soft;
}

// Its layer has learned nothing.
Seq2Seq without_guesses(const Wiring& wiring) {
  Seq2Seq m = model_of(hard(wiring), 21, 0.5f);
  const NoGrad off;
  m.look.baseline.weight.fill_(0.0f);
  m.look.baseline.bias.fill_(0.0f);
  return m;
}

class HardAttention : public testing::TestWithParam<Wiring> {};

TEST_P(HardAttention, ChoicesComeAsOftenAsTheyShould) {
  const Seq2Seq m = model_of(hard(GetParam()), 21, 0.5f);
  const AllPaths all(m);
  constexpr int64_t kDraws = 2000;
  const Draws d = draws_of(m, all.paths, kDraws);
  double chi2 = 0;
  for (size_t i = 0; i < all.paths.size(); ++i) {
    const double expected = all.paths[i].p() * kDraws;
    ASSERT_GT(expected, 5);
    chi2 += std::pow(static_cast<double>(d.count[i]) - expected, 2) / expected;
  }
  EXPECT_LT(chi2, 31.8);  // 8 degrees of freedom: one seed in ten thousand
  RecordProperty("chi2", std::to_string(chi2));
}

// With a baseline that says much and means nothing too: what it says must cancel.
TEST_P(HardAttention, TheGradientIsThatOfTheExpectedLoss) {
  const Seq2Seq m = model_of(hard(GetParam()), 21, 0.5f);
  const Gradients exact = exact_gradient(m);
  const AllPaths all(m);
  const Draws draws = draws_of(m, all.paths, 400);
  for (const float factor : {0.0f, 1.0f, 10.0f}) {
    {
      const NoGrad off;
      Tensor(m.look.baseline.weight)
          .copy_(Tensor::randn(m.look.baseline.weight.shape(), 5) * factor);
    }
    const Estimate e = estimate(m, all, draws);
    for (const auto& [name, expected] : exact) {
      if (name.starts_with("baseline")) continue;
      for (size_t k = 0; k < expected.size(); ++k) {
        ASSERT_NEAR(e.mean.at(name)[k], expected[k], 3e-6 * (1 + factor)) << name << ' ' << k;
      }
    }
  }
}

// The baseline follows its own loss until it has learned what to expect.
TEST_P(HardAttention, ALearnedBaselineLowersTheVariance) {
  const Seq2Seq m = without_guesses(GetParam());
  const AllPaths all(m);
  const Draws draws = draws_of(m, all.paths, 400);
  const double without = estimate(m, all, draws).variance;
  for (int step = 0; step < 60; ++step) {
    const Estimate e = estimate(m, all, draws);
    const NoGrad off;
    for (const char* name : {"baseline.weight", "baseline.bias"}) {
      const std::vector<double>& g = e.mean.at(name);
      const std::vector<float> g32(g.begin(), g.end());
      Tensor t = m.weights.all().at(name);
      t.add_(Tensor::from(g32, t.shape()), -0.2f);
    }
  }
  const double with = estimate(m, all, draws).variance;
  EXPECT_LT(with, 0.25 * without);
  RecordProperty("variance", std::to_string(without) + " without, " + std::to_string(with));
}

// The mean of what is expected of choices and of what comes of their expectation.
TEST_P(HardAttention, OfTwoWaysTheGradientIsTheirMean) {
  const Seq2Seq m = model_of(hard(GetParam()), 21, 0.5f);
  const Gradients choosing = exact_gradient(m);
  const Seq2Seq soft = softened(m);
  const Gradients expecting = gradients_of(soft, loss(soft, batch_of({kSentence})).loss);
  const AllPaths all(m);
  const Draws draws = draws_of(m, all.paths, 400, kTwoWays);
  const Estimate e = estimate(m, all, draws, kTwoWays);
  for (const auto& [name, expected] : choosing) {
    if (name.starts_with("baseline")) continue;
    for (size_t k = 0; k < expected.size(); ++k) {
      ASSERT_NEAR(e.mean.at(name)[k], 0.5 * (expected[k] + expecting.at(name)[k]), 6e-6)
          << name << ' ' << k;
    }
  }
}

// Before the layer has learned anything.
TEST_P(HardAttention, TheExpectationsOwnReturnIsABaseline) {
  const Seq2Seq m = without_guesses(GetParam());
  const AllPaths all(m);
  const double without = estimate(m, all, draws_of(m, all.paths, 400)).variance;
  const double with =
      4 * estimate(m, all, draws_of(m, all.paths, 400, kTwoWays), kTwoWays).variance;
  EXPECT_LT(with, 0.25 * without);
  RecordProperty("variance", std::to_string(without) + " without, " + std::to_string(with));
}

// loss = −log p(y|a) + (R − b)² − reward·(R − b)·log p(a) − entropy·H(a), a mean over tokens
TEST_P(HardAttention, TheLossIsTheSumItSays) {
  const Seq2Seq m = model_of(hard(GetParam()), 21, 0.5f);
  const LossConfig c = learning_by({.baseline = Baseline::learned,
                                    .reward = 0.7f,
                                    .entropy = 0.1f,
                                    .discount = 0.5f,
                                    .semi_sampling = 0.0f});
  const AllPaths all(m);
  const Draws d = draws_of(m, all.paths, 400);
  const auto value = [](const Tensor& t) { return static_cast<double>(t.item()); };
  for (size_t i = 0; i < all.paths.size(); ++i) {
    const Path& path = all.paths[i];
    const double last = -value(path.nlls[1]), R[] = {0.5 * last - value(path.nlls[0]), last};
    double expected = 0;
    for (size_t t = 0; t < kSteps; ++t) {
      const double advantage = R[t] - path.baselines[t];
      expected += value(path.nlls[t]) + advantage * advantage -
                  0.7 * advantage * value(path.log_probs[t]) - 0.1 * value(path.entropies[t]);
    }
    EXPECT_NEAR(loss(m, batch_of({kSentence}), seeded(c, d.seed[i])).loss.item(), expected / 2,
                2e-5 * std::abs(expected));
  }
}

TEST_P(HardAttention, AfterTrainingTheLikeliestIsTaken) {
  const Seq2Seq m = model_of(hard(GetParam()), 21, 0.5f);
  const AllPaths all(m);
  const Path* likeliest = &all.paths[0];
  for (const Path& path : all.paths) {
    const auto at = [](const Path& p, size_t t) { return p.log_probs[t].item(); };
    if (at(path, 0) > at(*likeliest, 0) ||
        (path.choices[0] == likeliest->choices[0] && at(path, 1) > at(*likeliest, 1))) {
      likeliest = &path;
    }
  }
  const Loss l = loss(m, batch_of({kSentence}), {.mode = Mode::eval});
  EXPECT_NEAR(l.nll, likeliest->nll().item(), 1e-5);
  EXPECT_NEAR(l.loss.item(), l.nll / kSteps, 1e-5);
}

TEST_P(HardAttention, TheExpectationIsSoftAttention) {
  const Seq2Seq m = model_of(hard(GetParam()), 21, 0.5f), soft = softened(m);
  LossConfig mixed = kPlain;
  mixed.semi_sampling = 1.0f;
  const Batch batch = batch_of(sentences());
  const Loss drawn = loss(m, batch, mixed), mean = loss(soft, batch);
  EXPECT_NEAR(drawn.nll, mean.nll, 1e-4);
  const Gradients a = gradients_of(m, drawn.loss), b = gradients_of(soft, mean.loss);
  for (const auto& [name, g] : b) {
    for (size_t k = 0; k < g.size(); ++k) ASSERT_NEAR(a.at(name)[k], g[k], 1e-5) << name;
  }
  mixed.semi_sampling = 0.5f;
  std::vector<Sentence> same(64, kSentence);
  const NoGrad off;
  const double share = loss(m, batch_of(same), mixed).nll / 64;
  EXPECT_GT(std::abs(share - loss(soft, batch_of(same)).nll / 64), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Wirings, HardAttention, testing::ValuesIn(kWirings), [](const auto& w) {
  std::string name = w.param.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
});

}  // namespace
}  // namespace fovea::models::tests
