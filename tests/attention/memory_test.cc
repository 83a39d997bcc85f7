#include "fovea/memory.h"

#include <thread>

#include "attention/expect.h"
#include "core/allocator.h"
#include "fovea/ops.h"

// Steps over a memory are attend() with one query each: the same contexts, weights and gradients.
namespace fovea::tests {
namespace {

struct Steps {
  std::vector<Tensor> queries;  // [B,Dq]
  Tensor keys, values;          // [B,Lk,·]
  Score score;
  Tensor lengths;
  Mask mask;
  Weighting weighting;
};

struct Shapes {
  int64_t B = 4, Lk = 7, Dq = 6, Dk = 6, Dv = 9, A = 5, T = 3;
  float scale = 1.0f;
};

Steps steps(const Shapes& x, const std::string& score, const std::vector<int64_t>& lengths = {}) {
  const Sizes n{x.B, 1, 1, 1, x.Lk, x.Dq, x.Dk, x.Dv};
  Steps s;
  for (int64_t t = 0; t < x.T; ++t) {
    s.queries.push_back(generate::normal({x.B, x.Dq}, 100 + t, x.scale));
  }
  s.keys = generate::normal({x.B, x.Lk, x.Dk}, 5, x.scale);
  s.values = generate::normal({x.B, x.Lk, x.Dv}, 6);
  s.score = generate::score(score_named(score), n, 17, {.A = x.A});
  if (!lengths.empty()) s.lengths = Tensor::from_ids(lengths, {x.B});
  return s;
}

Leaves make_leaves(Steps& s) {
  Leaves leaves;
  const auto leaf = [&leaves](const std::string& name, Tensor& t) {
    t = t.detach();
    leaves.emplace_back(name, t.set_requires_grad());
  };
  for (size_t t = 0; t < s.queries.size(); ++t) leaf("q" + std::to_string(t), s.queries[t]);
  leaf("keys", s.keys);
  leaf("values", s.values);
  for (auto& [name, t] : s.score.parameters) leaf(name, t);
  if (s.score.bias) leaf("bias", s.score.bias->table);
  for (MaskTerm& term : s.mask.terms) {
    for (auto& [name, t] : term.parameters) {
      if (t.dtype() == DType::f32) leaf(name, t);
    }
  }
  return leaves;
}

// A result of every step, and what it may be asked for.
struct Found {
  std::vector<Tensor> context, weights, entropy, log_prob;
  std::vector<float> chosen;
};

Found by_memory(const Steps& s) {
  Found f;
  Memory memory(s.keys, s.values, s.score, s.lengths);
  for (const Tensor& q : s.queries) {
    const MemoryStep step = memory(q, s.mask, s.weighting);
    f.context.push_back(step.context);
    f.weights.push_back(step.weights());
    f.entropy.push_back(step.entropy());
    if (!def_of(s.weighting).hard) continue;
    f.log_prob.push_back(step.log_prob());
    for (const int64_t j : step.chosen().to_ids()) f.chosen.push_back(static_cast<float>(j));
  }
  return f;
}

Found by_attend(const Steps& s) {
  Found f;
  const Mask lengths = s.lengths ? masks::lengths(s.lengths) : Mask{};
  for (const Tensor& q : s.queries) {
    const Attended a =
        attend(q.unsqueeze(1), s.keys, s.values, {s.score, lengths & s.mask, s.weighting});
    f.context.push_back(a.context.squeeze(1));
    f.weights.push_back(a.weights().squeeze(1));
    f.entropy.push_back(a.entropy().squeeze(1));
    if (!def_of(s.weighting).hard) continue;
    f.log_prob.push_back(a.log_prob().squeeze(1));
    for (const int64_t j : a.chosen().to_ids()) f.chosen.push_back(static_cast<float>(j));
  }
  return f;
}

// The values, and the gradients of a sum over all steps with random factors.
Results results_of(Steps s, Found (*run)(const Steps&)) {
  const Leaves leaves = make_leaves(s);
  const Found f = run(s);
  Results r;
  const auto output = [&](const std::string& name, const std::vector<Tensor>& by_step) {
    if (by_step.empty()) return;
    const Tensor all = stack(by_step, 0);
    r[name] = all.to_vector();
    add_gradients(all, Tensor::randn(all.shape(), 11), name, leaves, r);
  };
  output("context", f.context);
  output("weights", f.weights);
  output("entropy", f.entropy);
  output("log_prob", f.log_prob);
  if (!f.chosen.empty()) r["chosen"] = f.chosen;
  return r;
}

void expect_as_attended(const Steps& s, const std::string& what, Tolerance forward = {},
                        Tolerance backward = {2e-5, 2e-5}) {
  expect_near(results_of(s, by_memory), results_of(s, by_attend), forward, backward, what);
}

std::vector<std::string> names_of(const std::vector<Listed>& list) {
  std::vector<std::string> names;
  for (const Listed& x : list) names.push_back(x.name);
  return names;
}

TEST(Memory, IsAttendForEveryScoreAndWeighting) {
  for (const std::string& score : names_of(list_scores())) {
    for (const std::string& weighting : names_of(list_weightings())) {
      Steps s = steps({}, score, {7, 0, 1, 4});
      s.weighting = fovea::weighting(weighting);
      s.weighting.seed = 9;
      expect_as_attended(s, score + " " + weighting);
      if (HasFatalFailure()) return;
    }
  }
}

// A score's form says which way a step goes, also of a score that the library does not know.
class MemoryOf : public testing::TestWithParam<const ScoreDef*> {};
INSTANTIATE_TEST_SUITE_P(Scores, MemoryOf,
                         testing::ValuesIn(score_table().begin(), score_table().end()),
                         [](const auto& test) { return test.param->name; });

TEST_P(MemoryOf, DefersGradientsWhereTheFormAllows) {
  const bool fast = GetParam()->form != Form::pairs;
  Steps s = steps({}, GetParam()->name, {7, 0, 1, 4});
  make_leaves(s);
  Memory memory(s.keys, s.values, s.score, s.lengths);
  const auto deferred = [&](const Mask& mask, const Weighting& w) {
    return memory(s.queries[0], mask, w).deferred();
  };
  EXPECT_EQ(deferred({}, {}), fast);
  EXPECT_EQ(deferred({}, weightings::softmax(0.5f)), fast);
  EXPECT_FALSE(deferred(masks::window(2), {}));
  EXPECT_FALSE(deferred({}, weightings::sample(1)));
  EXPECT_FALSE(deferred({}, weightings::sparsemax()));
  EXPECT_FALSE(deferred({}, {.dropout = 0.5f}));
  expect_as_attended(s, GetParam()->name);
}

// A window over keys that are lowered already, and keys that nobody sees of what is not finite.
TEST_P(MemoryOf, NeverReadsWhatAStepsMaskHides) {
  Steps clean = steps({}, GetParam()->name, {7, 0, 1, 4}), dirty = clean;
  clean.mask = dirty.mask = masks::window(2);
  dirty.keys = clean.keys.clone();
  dirty.values = clean.values.clone();
  dirty.keys.slice(1, 3, 7).fill_(kNan);
  dirty.values.slice(1, 3, 7).fill_(kInf);
  for (Tensor& q : dirty.queries) {
    q = q.clone();
    q.select(0, 1).fill_(kNan);  // this row sees nothing
  }
  expect_near(results_of(dirty, by_memory), results_of(clean, by_memory), {1e-6, 1e-6},
              GetParam()->name);
}

TEST(Memory, IsAttendForEveryMask) {
  const Shapes x;
  const Sizes n{x.B, 1, 1, 1, x.Lk, x.Dq, x.Dk, x.Dv};
  for (const std::string& score : families()) {
    for (const MaskDef* mask : mask_table()) {
      Steps s = steps(x, score, {7, 0, 1, 4});
      s.mask = generate::mask(*mask, n, 4);
      expect_as_attended(s, score + " " + mask->name);
      if (HasFatalFailure()) return;
    }
  }
}

// Widths around whole vectors and tiles, more keys and steps than fit in one of them.
TEST(Memory, IsAttendAtEverySize) {
  for (const int64_t A : {1, 15, 16, 17, 33, 64, 100}) {
    for (const int64_t Dv : {1, 16, 35}) {
      const Shapes x{.B = 3, .Lk = 13, .Dq = A, .Dk = A, .Dv = Dv, .A = A, .T = 5};
      for (const std::string& score : families()) {
        Steps s = steps(x, score, {13, 8, 5});
        s.score.scale = 0.25f;
        expect_as_attended(s, score + " A=" + std::to_string(A) + " Dv=" + std::to_string(Dv));
        if (HasFatalFailure()) return;
      }
    }
  }
  for (const std::string& score : families()) {
    expect_as_attended(steps({.B = 1, .Lk = 1, .T = 1}, score), score + " of one key");
    expect_as_attended(steps({.B = 2, .Lk = 150, .T = 2}, score), score + " of many keys");
    expect_as_attended(steps({.B = 2, .Lk = 0, .T = 2}, score), score + " of no keys");
    expect_as_attended(steps({.B = 0, .T = 2}, score), score + " of no rows");
  }
}

TEST(Memory, IsAttendOnEveryInstructionSet) {
  on_every_isa([](const std::string& isa) {
    for (const std::string& score : families()) {
      for (const float scale : {1.0f, 15.0f, 60.0f}) {
        const Shapes x{.Lk = 9, .Dq = 37, .Dk = 37, .A = 37, .scale = scale};
        Steps s = steps(x, score, {9, 0, 1, 6});
        s.score.scale = 0.1f;
        expect_as_attended(s, isa + " " + score, {1e-4, 1e-4}, {2e-4 * scale, 2e-4});
        if (HasFatalFailure()) return;
      }
    }
  });
}

// e^{2a} and e^{2κ} leave the range of floats long before tanh(a + κ) is 1.
TEST(Memory, KeepsLargeArgumentsApart) {
  for (const float shift : {15.0f, 30.0f, 50.0f, 300.0f}) {
    Steps s = steps({.Dq = 20, .Dk = 20, .T = 4}, "additive_keras", {7, 0, 1, 4});
    for (Tensor& q : s.queries) q = q + shift;
    s.keys = s.keys - shift;
    expect_as_attended(s, "shift " + std::to_string(shift), {1e-4, 1e-4}, {1e-4, 1e-4});
    const Results found = results_of(s, by_memory);
    for (const auto& [name, x] : found) EXPECT_TRUE(all_finite(x)) << name << " at " << shift;
  }
  Steps s = steps({.Dq = 20, .Dk = 20, .T = 4}, "additive_keras");
  s.queries[1] = s.queries[1] * 100.0f;  // one step alone
  expect_as_attended(s, "one large step", {1e-4, 1e-4}, {1e-4, 1e-4});
}

TEST(Memory, TakesScalesTemperaturesBiasesAndDropout) {
  for (const std::string& score : families()) {
    Steps s = steps({}, score, {7, 0, 1, 4});
    s.score.scale = 0.3f;
    s.weighting.temperature = 0.7f;
    expect_as_attended(s, score + " scaled");
    s.weighting.dropout = 0.4f;
    s.weighting.seed = 5;
    expect_as_attended(s, score + " with dropout");
    s.weighting = {};
    s.score.bias = Bias{Tensor::randn({4, 1, 1, 7}, 8), false};
    expect_as_attended(s, score + " with a bias");
  }
}

TEST(Memory, TakesAnyStrides) {
  for (const std::string& score : families()) {
    const Shapes x{.Dq = 20, .Dk = 20, .A = 20};
    const Steps s = steps(x, score, {7, 0, 1, 4});
    const Results plain = results_of(s, by_memory);
    Steps strided = s;
    strided.keys = s.keys.transpose(0, 1).contiguous().transpose(0, 1);  // time-major
    strided.values = s.values.transpose(0, 1).contiguous().transpose(0, 1);
    expect_near(results_of(strided, by_memory), plain, {1e-5, 1e-5}, score + " time-major");
    strided.keys = s.keys.transpose(1, 2).contiguous().transpose(1, 2);
    strided.values = s.values.transpose(1, 2).contiguous().transpose(1, 2);
    for (Tensor& q : strided.queries) q = q.transpose(0, 1).contiguous().transpose(0, 1);
    expect_near(results_of(strided, by_memory), plain, {1e-5, 1e-5}, score + " feature-major");
  }
}

TEST(Memory, NeverReadsPadding) {
  const std::vector<int64_t> lengths{7, 0, 1, 4};
  for (const std::string& score : families()) {
    for (const char* weighting : {"softmax", "sample"}) {
      Steps clean = steps({}, score, lengths), dirty = clean;
      clean.weighting = dirty.weighting = fovea::weighting(weighting);
      dirty.keys = clean.keys.clone();
      dirty.values = clean.values.clone();
      for (int64_t b = 0; b < 4; ++b) {
        dirty.keys.select(0, b).slice(0, lengths[b], 7).fill_(b % 2 ? kNan : kInf);
        dirty.values.select(0, b).slice(0, lengths[b], 7).fill_(kNan);
      }
      for (Tensor& q : dirty.queries) {
        q = q.clone();
        q.select(0, 1).fill_(kNan);  // this row sees nothing
      }
      expect_near(results_of(dirty, by_memory), results_of(clean, by_memory), {0.0, 0.0}, score);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Memory, SeesNothingInAnEmptyRow) {
  for (const std::string& score : families()) {
    const Results r = results_of(steps({}, score, {7, 0, 1, 4}), by_memory);
    EXPECT_EQ(row_of(r.at("context"), 1, 9), std::vector<float>(9)) << score;
    EXPECT_EQ(row_of(r.at("weights"), 1, 7), std::vector<float>(7)) << score;
    EXPECT_EQ(row_of(r.at("dq0 of context"), 1, 6), std::vector<float>(6)) << score;
    EXPECT_EQ(row_of(r.at("dkeys of context"), 1, 42), std::vector<float>(42)) << score;
    EXPECT_EQ(row_of(r.at("dvalues of context"), 1, 63), std::vector<float>(63)) << score;
  }
}

TEST(Memory, IsTheSameAtAnyNumberOfThreads) {
  const int before = threads();
  for (const std::string& score : families()) {
    const Shapes x{.B = 37, .Lk = 30, .Dq = 90, .Dk = 90, .Dv = 70, .A = 90, .T = 4};
    const Steps s = steps(x, score);
    set_threads(1);
    const Results one = results_of(s, by_memory);
    for (const int n : {2, 4}) {
      set_threads(n);
      expect_same_bits(results_of(s, by_memory), one, score + " at " + std::to_string(n));
    }
    set_threads(before);
  }
}

TEST(Memory, WritesEverythingItReads) {
  for (const std::string& score : families()) {
    const Steps s = steps({.Dq = 20, .Dk = 20, .A = 20}, score, {7, 0, 1, 4});
    const Results plain = results_of(s, by_memory);
    poison_memory(true);
    const Results poisoned = results_of(s, by_memory);
    poison_memory(false);
    expect_same_bits(poisoned, plain, score);
  }
}

// A pass for some inputs alone must leave nothing behind for the next.
TEST(Memory, GivesTheSameGradientsAgain) {
  for (const std::string& score : families()) {
    Steps s = steps({}, score, {7, 0, 1, 4});
    const Leaves leaves = make_leaves(s);
    std::vector<Tensor> inputs;
    for (const auto& [name, t] : leaves) inputs.push_back(t);
    const Found f = by_memory(s);
    const Tensor all = stack(f.context, 0), d = Tensor::randn(all.shape(), 3);
    const std::vector<Tensor> first = gradients(all, d, inputs);
    // These passes do not reach the keys; what they keep must not count in the next.
    const std::vector<Tensor> query{s.queries[0]};
    gradients(all, d, query);
    const std::vector<Tensor> again = gradients(all, d, inputs);
    gradients(all, d, query);
    std::vector<Tensor> elsewhere;
    std::thread([&] { elsewhere = gradients(all, d, inputs); }).join();
    all.backward(d);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::vector<float> expected = first[i].to_vector();
      EXPECT_EQ(again[i].to_vector(), expected) << score << " " << leaves[i].first;
      EXPECT_EQ(elsewhere[i].to_vector(), expected) << score << " " << leaves[i].first;
      EXPECT_EQ(inputs[i].grad().to_vector(), expected) << score << " " << leaves[i].first;
    }
  }
}

// Each step's query comes from the context before it.
TEST(Memory, ServesARecurrence) {
  for (const std::string& score : families()) {
    const Steps given = steps({.Dv = 6, .T = 1}, score, {7, 0, 1, 4});
    std::vector<std::vector<float>> expected;
    for (const bool stepped : {false, true}) {
      Steps s = given;
      const Leaves leaves = make_leaves(s);
      Memory memory(s.keys, s.values, s.score, s.lengths);
      Tensor state = s.queries[0];
      for (int t = 0; t < 6; ++t) {
        const Tensor context = stepped
                                   ? memory(state).context
                                   : attend(state.unsqueeze(1), s.keys, s.values,
                                            {.score = s.score, .mask = masks::lengths(s.lengths)})
                                         .context.squeeze(1);
        state = tanh(state + context);
      }
      sum(square(state)).backward();
      for (size_t i = 0; i < leaves.size(); ++i) {
        const std::vector<float> g = leaves[i].second.grad().to_vector();
        if (stepped) {
          expect_near(g, expected[i], {2e-5, 2e-5}, score + " d" + leaves[i].first);
        } else {
          expected.push_back(g);
        }
      }
    }
  }
}

TEST(Memory, RecordsOnlyWhatIsWanted) {
  Steps s = steps({}, "additive", {7, 0, 1, 4});
  EXPECT_FALSE(Memory(s.keys, s.values, s.score)(s.queries[0]).context.requires_grad());
  s.queries[0].set_requires_grad();
  Memory memory(s.keys, s.values, s.score, s.lengths);
  const Tensor context = memory(s.queries[0]).context;
  {
    const NoGrad off;
    EXPECT_FALSE(memory(s.queries[0]).context.requires_grad());
  }
  sum(context).backward();  // of the query alone
  Steps same = s;
  const Leaves leaves = make_leaves(same);
  const Tensor attended = by_attend(same).context[0];
  sum(attended).backward();
  expect_near(s.queries[0].grad().to_vector(), leaves[0].second.grad().to_vector(), {}, "dq");
  same.values = s.values.detach();
  same.values.set_requires_grad();
  sum(by_memory(same).context[0]).backward();
  EXPECT_TRUE(same.values.grad());
}

TEST(Memory, NoticesChangesMadeInPlace) {
  Steps s = steps({}, "additive");
  make_leaves(s);
  Memory memory(s.keys, s.values, s.score);
  const Tensor context = memory(s.queries[0]).context;
  {
    const NoGrad off;
    s.values.mul_(2.0f);
  }
  EXPECT_THROW(sum(context).backward(), Error);
}

TEST(Memory, SaysWhatDoesNotFit) {
  const Steps s = steps({}, "additive");
  const auto message = [](const auto& f) -> std::string {
    try {
      f();
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(message([&] { Memory(s.keys, s.values.slice(1, 0, 3), s.score); }),
            "[Memory] keys are [4, 7, 6], values are [4, 3, 9]: B and Lk must be equal");
  EXPECT_EQ(message([&] { Memory(s.keys, s.values.select(0, 0), s.score); }),
            "[Memory] values is [7, 9], expected rank 3");
  EXPECT_EQ(message([&] {
              Memory(s.keys, s.values, s.score)(Tensor::zeros({4, 5}));
            }),
            "[Memory] the query is [4, 5], expected [4, 6]");
  EXPECT_NE(message([&] { Memory(s.keys, s.values, {.def = s.score.def}); }), "");
  EXPECT_NE(message([&] { Memory(s.keys, s.values, s.score, Tensor::zeros({4})); }), "");
  EXPECT_NE(message([&] { Memory(s.keys, s.values, s.score)(s.queries[0]).chosen(); }), "");
  EXPECT_NE(message([&] { Memory(s.keys, s.values, s.score)(s.queries[0]).log_prob(); }), "");
  EXPECT_NE(
      message([&] { Memory(s.keys, s.values, s.score)(s.queries[0], {}, {.temperature = -1.0f}); }),
      "");
}

}  // namespace
}  // namespace fovea::tests
