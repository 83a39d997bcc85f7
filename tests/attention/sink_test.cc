#include <cmath>

#include "attention/expect.h"
#include "fovea/memory.h"
#include "fovea/ops.h"
#include "fovea/runtime.h"

// A sink is a score beside those of the keys that takes weight and has no value.
// tests/attention/attend_test.cc goes through scores and masks.
namespace fovea::tests {
namespace {

// Few keys, whose weights are kept; few of wide values; several blocks; one query; grouped heads.
constexpr generate::Heads kSinkHeads[] = {{2, 1, 19, 64, 8, 8},    {2, 2, 70, 13, 16, 16},
                                          {1, 1, 10, 40, 32, 256}, {1, 1, 70, 600, 9, 10},
                                          {4, 2, 1, 1030, 32, 32}, {4, 1, 2, 100, 16, 16},
                                          {2, 2, 3, 1100, 16, 16}};

// About what the keys weigh together, so that it matters.
Tensor sink_for(const Sizes& n, float more = 0.0f) {
  Tensor sink = Tensor::randn({n.H}, 23);
  const NoGrad quiet;
  return sink + (std::log(static_cast<float>(n.Lk)) + more);
}

Results by_reference(Call x) {
  x.want.plan = Plan::reference;
  return results(x);
}

TEST(Sink, IsThatOfTheReferenceInEveryShape) {
  for (const generate::Heads& s : kSinkHeads) {
    const Sizes n = sizes(s);
    for (const char* score : {"scaled_dot", "additive_keras"}) {
      for (const char* mask : {"", "causal", "window:200,3"}) {
        SCOPED_TRACE(std::string(score) + " " + mask + " Lq=" + std::to_string(s.Lq) +
                     " Lk=" + std::to_string(s.Lk));
        Call x = call(
            n, {score_for(score, n), fovea::mask(mask), weightings::softmax(1.3f, sink_for(n))});
        Results expected = by_reference(x);
        // Of additive scores it is a difference of sums over all rows.
        const std::vector<float> du = expected["du of log_sum_exp"];
        expected.erase("du of log_sum_exp");
        on_every_isa([&](const std::string&) {
          Results found = results(x);
          expect_near(found, expected, {1e-5, 1.3e-6}, {3e-5, 1e-4}, "");
          expect_near(found["du of log_sum_exp"], du, {5e-4, 1e-4}, "du of log_sum_exp");
        });
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Written out: a key of zeros and a value of zeros behind the others, whose bias is the sink.
TEST(Sink, IsAKeyOfValueZero) {
  for (const generate::Heads& s : kSinkHeads) {
    const Sizes n = sizes(s);
    SCOPED_TRACE("Lq=" + std::to_string(s.Lq) + " Lk=" + std::to_string(s.Lk));
    Call x = call(n, {.weighting = weightings::softmax(0.8f, sink_for(n))});
    const Results found = results(x);
    Call y = call(n, {.weighting = weightings::softmax(0.8f)});
    const auto with_row = [](const Tensor& t) {
      return concatenate({t, Tensor::zeros({t.size(0), t.size(1), 1, t.size(3)})}, 2);
    };
    Tensor sink = sink_for(n);
    const Leaves leaves{{"q", y.q.set_requires_grad()},
                        {"k", y.k.set_requires_grad()},
                        {"v", y.v.set_requires_grad()},
                        {"sink", sink.set_requires_grad()}};
    const Tensor none = Tensor::zeros({n.H, 1, n.Lk});
    y.attention.score.bias = Bias{concatenate({none, sink.reshape({n.H, 1, 1})}, 2), false};
    const Attended a = attend(y.q, with_row(y.k), with_row(y.v), y.attention);
    Results expected;
    const auto output = [&](const std::string& name, const Tensor& t) {
      expected[name] = t.to_vector();
      add_gradients(t, Tensor::randn(t.shape(), 11), name, leaves, expected);
    };
    output("context", a.context);
    output("weights", a.weights().slice(3, 0, n.Lk));
    output("log_sum_exp", a.log_sum_exp());
    output("entropy", a.entropy());
    expect_near(found, expected, {1e-5, 1e-5}, {3e-5, 1e-4}, "");
    if (HasFatalFailure()) return;
  }
}

TEST(Sink, TakesWhatTheWeightsLack) {
  const Sizes n = sizes(kSinkHeads[0]);
  const Tensor sink = sink_for(n);
  for (const bool keep : {false, true}) {
    const Call x = call(n, {{}, masks::causal(), weightings::softmax(1.0f, sink)});
    const Attended a = attend(x.q, x.k, x.v, x.attention, {.weights = keep});
    const std::vector<float> sums = sum(a.weights(), {3}).to_vector();
    const std::vector<float> lse = a.log_sum_exp().to_vector(), s = sink.to_vector();
    for (size_t i = 0; i < sums.size(); ++i) {
      const float taken = std::exp(s[i / n.Lq % n.H] - lse[i]);
      EXPECT_GT(taken, 0.01f);
      EXPECT_NEAR(sums[i] + taken, 1.0f, 5e-6f);
    }
    expect_near(a.top(2).weights.to_vector(),
                attend(x.q, x.k, x.v, x.attention, {.weights = !keep}).top(2).weights.to_vector(),
                {1e-6, 1e-6}, "top");
  }
}

// Rows without keys: context 0, the sink as log-sum-exp, and no gradient but by that.
TEST(Sink, IsAllThatABlindRowHas) {
  Sizes n{.B = 3, .H = 2, .Hk = 1, .Lq = 19, .Lk = 21, .Dq = 6, .Dk = 6, .Dv = 5};
  const Tensor sink = Tensor::from({0.5f, -3.0f}, {2});
  std::vector<uint8_t> allowed(n.Lq * n.Lk, 1);
  for (int64_t j = 0; j < n.Lk; ++j) allowed[4 * n.Lk + j] = 0;
  const Tensor lengths = Tensor::from_ids(std::vector<int64_t>{9, 0, 21}, {3});
  const Mask blind =
      masks::lengths(lengths) & masks::matrix(Tensor::from_bools(allowed, {n.Lq, n.Lk}));
  for (const Plan plan : {Plan::reference, Plan::composed, Plan::fused}) {
    Call x = call(n, {{}, blind, weightings::softmax(0.5f, sink)});
    x.want.plan = plan;
    on_every_isa([&](const std::string&) {
      const Results r = results(x);
      for (int64_t row = 0; row < n.B * n.H * n.Lq; ++row) {
        if (row / (n.H * n.Lq) != 1 && row % n.Lq != 4) continue;
        EXPECT_EQ(row_of(r.at("context"), row, n.Dv), std::vector<float>(n.Dv));
        EXPECT_EQ(row_of(r.at("weights"), row, n.Lk), std::vector<float>(n.Lk));
        EXPECT_EQ(r.at("log_sum_exp")[row], row / n.Lq % n.H == 0 ? 1.0f : -6.0f);
        EXPECT_EQ(r.at("entropy")[row], 0.0f);
        for (const char* of : {"context", "weights", "log_sum_exp", "entropy"}) {
          EXPECT_EQ(row_of(r.at(std::string("dq of ") + of), row, n.Dq), std::vector<float>(n.Dq));
        }
      }
    });
  }
  n.Lk = 0;
  for (const Plan plan : {Plan::reference, Plan::composed, Plan::fused}) {
    Call x = call(n, {{}, {}, weightings::softmax(0.5f, sink)});
    x.want.plan = plan;
    const Results r = results(x);
    const Tensor d = Tensor::randn({n.B, n.H, n.Lq}, 11);
    for (size_t i = 0; i < r.at("log_sum_exp").size(); ++i) {
      EXPECT_EQ(r.at("log_sum_exp")[i], i / n.Lq % n.H == 0 ? 1.0f : -6.0f);
    }
    expect_near(r.at("dsink of log_sum_exp"), (sum(d, {0, 2}) * 2.0f).to_vector(), {1e-5, 1e-5},
                "dsink");
    EXPECT_EQ(r.at("dsink of context"), std::vector<float>(2));
  }
}

// What blind rows hold, and what is asked of them, changes nothing.
TEST(Sink, IgnoresWhatIsHidden) {
  const Sizes n{.B = 2, .H = 2, .Hk = 2, .Lq = 19, .Lk = 21, .Dq = 6, .Dk = 6, .Dv = 5};
  std::vector<uint8_t> allowed(n.Lq * n.Lk, 1);
  for (int64_t i = 0; i < n.Lq; ++i) {
    for (int64_t j = 0; j < n.Lk; ++j) allowed[i * n.Lk + j] = i % 5 != 2 && j != 7;
  }
  Call x = call(n, {{},
                    masks::matrix(Tensor::from_bools(allowed, {n.Lq, n.Lk})),
                    weightings::softmax(1.0f, sink_for(n))});
  const auto with = [&](float value) {
    Call y = x;
    y.d_context = Tensor::randn({n.B, n.H, n.Lq, n.Dv}, 31);
    y.d_weights = Tensor::randn({n.B, n.H, n.Lq, n.Lk}, 32);
    const auto fill = [value](Tensor& t, int64_t row, int64_t every) {
      std::vector<float> data = t.to_vector();
      for (int64_t e = 0; e < t.numel(); ++e) {
        if (e / t.size(3) % t.size(2) % every == row) data[e] = value;
      }
      t = Tensor::from(data, t.shape());
    };
    fill(y.q, 2, 5);
    fill(y.d_context, 2, 5);
    fill(y.d_weights, 2, 5);
    fill(y.k, 7, 1000);
    fill(y.v, 7, 1000);
    return results(y);
  };
  const Results clean = with(0.5f);
  for (const float garbage : {kNan, kInf, 1e30f}) {
    on_every_isa([&](const std::string&) {
      expect_near(with(garbage), clean, {1e-5, 1e-5}, {5e-5, 1e-4}, std::to_string(garbage));
    });
  }
}

TEST(Sink, OfMinusInfinityIsNone) {
  for (const generate::Heads& s : kSinkHeads) {
    const Sizes n = sizes(s);
    Call x = call(n, {{}, masks::causal()});
    const Results plain = results(x);
    x.attention.weighting = weightings::softmax(1.0f, Tensor::full({n.H}, -kInf));
    Results without = results(x);
    for (const char* of : {"context", "weights", "log_sum_exp", "entropy"}) {
      const std::string name = std::string("dsink of ") + of;
      EXPECT_EQ(without.at(name), std::vector<float>(n.H)) << name;
    }
    expect_near(without, plain, {1e-6, 1e-6}, {2e-5, 1e-5}, "Lk=" + std::to_string(s.Lk));
  }
}

TEST(Sink, ThatIsNanOrInfiniteShows) {
  for (const generate::Heads& s : kSinkHeads) {
    const Sizes n = sizes(s);
    for (const float wrong : {kNan, kInf}) {
      std::vector<float> sink(n.H, 0.5f);
      sink[0] = wrong;
      Call x = call(n, {.weighting = weightings::softmax(1.0f, Tensor::from(sink, {n.H}))});
      const Results expected = by_reference(x);
      for (const Plan plan : {Plan::fused, Plan::composed}) {
        SCOPED_TRACE(name_of(plan) + std::to_string(wrong) + " Lk=" + std::to_string(s.Lk));
        x.want.plan = plan;
        const Results r = results(x);
        for (size_t e = 0; e < r.at("context").size(); ++e) {
          const bool first = e / (n.Lq * n.Dv) % n.H == 0;
          ASSERT_EQ(std::isnan(r.at("context")[e]), first);
        }
        expect_near(r, expected, {1e-5, 1e-5}, {3e-5, 1e-4}, "");
        if (HasFatalFailure()) return;
      }
    }
  }
}

// A float of 10⁴ and more has lost the logarithm of a sum: the row tells it again.
TEST(Sink, IsExactAmongLargeScores) {
  const Sizes n{.B = 1, .H = 2, .Hk = 2, .Lq = 70, .Lk = 300, .Dq = 2, .Dk = 2, .Dv = 8};
  std::vector<float> q = Tensor::rand({1, 2, n.Lq, 2}, 4).to_vector();
  for (float& y : q) y = 100.0f * std::floor(3.0f * y - 1.0f);
  std::vector<float> k = Tensor::rand({1, 2, n.Lk, 2}, 5).to_vector();
  for (float& y : k) y = 100.0f * std::floor(3.0f * y - 1.0f);
  for (const char* mask : {"", "causal"}) {
    Call x = call(n, {scores::dot(), fovea::mask(mask),
                      weightings::softmax(1.0f, Tensor::from({1e4f, 0.0f}, {2}))});
    x.q = Tensor::from(q, {1, 2, n.Lq, 2});
    x.k = Tensor::from(k, {1, 2, n.Lk, 2});
    const Results expected = by_reference(x);
    on_every_isa([&](const std::string&) {
      // A gradient of q is a sum over keys of size 100.
      expect_near(results(x), expected, {1e-5, 1.3e-6}, {2e-2, 2e-4}, mask);
    });
  }
}

TEST(Sink, IsForSoftmaxAlone) {
  const Sizes n = sizes(kSinkHeads[1]);
  const Call x = call(n);
  for (const WeightingDef* def : weighting_table()) {
    if (def->kind == WeightingKind::softmax) continue;
    const Attention a{.weighting = {.def = def, .parameters = {{"sink", sink_for(n)}}}};
    try {
      attend(x.q, x.k, x.v, a);
      ADD_FAILURE() << def->name;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(def->name + " takes no parameter sink"),
                std::string::npos)
          << e.what();
    }
    EXPECT_THROW(weighting(def->name, {{"sink", sink_for(n)}}), Error);
  }
  EXPECT_THROW(attend(x.q, x.k, x.v, {.weighting = weightings::softmax(1, Tensor::zeros({3}))}),
               Error);
}

TEST(Sink, OfAMemoryIsThatOfACall) {
  const Tensor q = Tensor::randn({3, 8}, 1), k = Tensor::randn({3, 21, 8}, 2);
  const Tensor v = Tensor::randn({3, 21, 5}, 3);
  const Weighting w = weightings::softmax(1.0f, Tensor::from({1.5f}, {1}));
  Memory memory(k, v, scores::scaled_dot());
  const MemoryStep step = memory(q, {}, w);
  EXPECT_FALSE(step.deferred());
  EXPECT_EQ(step.context.to_vector(),
            attend(q.unsqueeze(1), k, v, {.weighting = w}).context.to_vector());
}

TEST(Sink, GivesTheSameBitsAtAnyNumberOfThreads) {
  const int before = threads();
  for (const generate::Heads& s : kSinkHeads) {
    const Sizes n = sizes(s);
    const Call x = call(n, {{}, masks::causal(), weightings::softmax(1.0f, sink_for(n))});
    set_threads(1);
    const Results one = results(x);
    set_threads(3);
    expect_same_bits(results(x), one);
  }
  set_threads(before);
}

}  // namespace
}  // namespace fovea::tests
