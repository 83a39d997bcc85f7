#include <algorithm>
#include <mutex>

#include "attention/blocks.h"
#include "fovea/ranks.h"
#include "ranks/cut.h"
#include "tests/attention/expect.h"
#include "tests/reduced.h"
#include "tests/team/threads.h"

// attend() over teams of threads, held against the reference in float64, and bit for bit against a
// team of one.
namespace fovea::tests {
namespace {

using team::Team;
using team::tests::Threads;
using team::tests::told;

constexpr int kMostRanks = 4;

// Rows that a rank has, in their places among all.
void place_rows(const Tensor& held, const Team& team, Tensor& all) {
  const auto [front, back] = rows_of_rank(all.size(2), team.rank(), team.size());
  const auto put = [&](const RowRange& to, int64_t from) {
    all.slice(2, to.begin, to.end).copy_(held.slice(2, from, from + to.size()));
  };
  put(front, 0);
  put(back, front.size());
}

// What a team gives: outputs and their gradients for random upstream ones, by the names that
// results() has. Gradients of parameters are the same on every rank.
Results of_team(const Call& c, int ranks) {
  const Sizes n = sizes_of(c.q, c.k, c.v);
  std::map<std::string, Tensor> all;
  Results r;
  std::mutex one_at_a_time;
  const auto work = [&](Team& team) {
    Call own = c;
    for (Tensor* t : {&own.q, &own.k, &own.v}) *t = rows_of_rank(*t, 2, team).clone();
    const Leaves leaves = make_leaves(own);
    const AttendedRows a = attend(team, own.q, own.k, own.v, own.attention, {n.Lq, n.Lk});
    const auto output = [&](const std::string& name, const Tensor& t, Shape shape) {
      if (!t) return;
      const Tensor d = Tensor::randn(shape, 11);
      std::vector<Tensor> inputs;
      for (const auto& [leaf, tensor] : leaves) inputs.push_back(tensor);
      const std::vector<Tensor> grads = gradients(t, rows_of_rank(d, 2, team), inputs);
      const std::lock_guard lock(one_at_a_time);
      const auto put = [&](const std::string& what, const Tensor& rows, Shape whole) {
        if (!all[what]) all[what] = Tensor::zeros(whole);
        place_rows(rows, team, all[what]);
      };
      put(name, t.detach(), shape);
      const Shape of_inputs[] = {c.q.shape(), c.k.shape(), c.v.shape()};
      for (size_t i = 0; i < grads.size(); ++i) {
        const std::string what = "d" + leaves[i].first + " of " + name;
        if (i < 3) {
          put(what, grads[i], of_inputs[i]);
        } else if (r.contains(what)) {
          const std::vector<float> other = grads[i].to_vector();
          EXPECT_EQ(std::memcmp(r[what].data(), other.data(), other.size() * sizeof(float)), 0)
              << what << " on rank " << team.rank();
        } else {
          r[what] = grads[i].to_vector();
        }
      }
    };
    output("context", a.context, {n.B, n.H, n.Lq, n.Dv});
    output("log_sum_exp", a.log_sum_exp, {n.B, n.H, n.Lq});
    output("log_prob", a.log_prob, {n.B, n.H, n.Lq});
    if (a.chosen) {
      const std::lock_guard lock(one_at_a_time);
      if (!all["chosen"]) all["chosen"] = Tensor::zeros({n.B, n.H, n.Lq});
      place_rows(a.chosen.to(DType::f32), team, all["chosen"]);
    }
  };
  for (const std::exception_ptr& thrown : Threads(ranks).run(work)) EXPECT_EQ(told(thrown), "");
  for (const auto& [name, t] : all) r[name] = t.to_vector();
  return r;
}

// Ranks to compare with one: a number from 2 to 4 for each call of check(), in turns. Three have
// shares that are no subtree, so that most of what can go wrong does there.
std::vector<int> ranks_in_turn() {
  static int turn = 0;
  constexpr int kTurns[] = {3, 2, 3, 4};
  return {kTurns[turn++ % 4]};
}

// Bits on other numbers of ranks are those of one. They are 10⁻⁵ of float64 at most, of the largest
// number of a result where that is above 1; and so near to what one call of attend() gives.
void check(const Call& c, const std::string& what,
           const std::vector<int>& others = ranks_in_turn()) {
  const testing::ScopedTrace trace(__FILE__, __LINE__, what);
  const Results one = of_team(c, 1);
  ASSERT_FALSE(one.empty());
  for (const int ranks : others) {
    expect_same_bits(of_team(c, ranks), one, std::to_string(ranks) + " ranks");
    if (testing::Test::HasFatalFailure()) return;
  }
  const auto near = [&](const auto& expected, double most, const std::string& from) {
    for (const auto& [name, x] : expected) {
      if (!one.contains(name)) continue;
      double largest = 1;
      for (const double y : x) largest = std::max(largest, std::abs(y));
      expect_near(one.at(name), x, {most * largest, 0}, from + " " + name);
      if (testing::Test::HasFatalFailure()) return;
    }
  };
  near(reference_results(c), 1e-5, "reference");
  if (!testing::Test::HasFatalFailure()) near(results(c), 2e-5, "attend()");
}

// 64 chunks of one row, six of which have two.
const Sizes kSizes = generate::sizes({.H = 2, .Hk = 1, .Lq = 70, .Lk = 70, .D = 4, .Dv = 6});

TEST(OverRanks, bits_are_the_same_on_two_to_four_ranks) {
  const Sizes n = generate::sizes({.H = 4, .Hk = 2, .Lq = 70, .Lk = 70, .D = 8, .Dv = 12});
  for (const char* name : {"scaled_dot", "additive"}) {
    check(call(n, {.score = score_for(name, n), .mask = masks::causal()}), name,
          test::reduced() ? std::vector{3} : std::vector{2, 3, 4});
  }
}

class EveryScore : public testing::TestWithParam<const ScoreDef*> {};

TEST_P(EveryScore, with_every_mask_has_the_same_bits_on_any_number_of_ranks) {
  const Score score = generate::score(*GetParam(), kSizes, 17);
  for (const MaskDef* mask : mask_table()) {
    check(call(kSizes, {.score = score, .mask = generate::mask(*mask, kSizes, 5, {.width = 9})}),
          mask->name);
    if (HasFatalFailure()) return;
  }
}
INSTANTIATE_TEST_SUITE_P(, EveryScore, testing::ValuesIn(score_table()), generate::kByName);

class EveryWeighting : public testing::TestWithParam<const WeightingDef*> {};

TEST_P(EveryWeighting, merges_or_is_refused) {
  const WeightingDef& def = *GetParam();
  Weighting weighting{.def = &def,
                      .parameters = generate::parameters(def.parameters, kSizes, 23),
                      .numbers = generate::numbers(&def),
                      .temperature = 0.8f,
                      .seed = 5};
  try {
    check_mergeable("attend", {.weighting = weighting});
  } catch (const Error& e) {
    const auto thrown = Threads(2).run([&](Team& team) {
      const Call c = call(kSizes, {.weighting = weighting});
      attend(team, rows_of_rank(c.q, 2, team), rows_of_rank(c.k, 2, team),
             rows_of_rank(c.v, 2, team), c.attention, {kSizes.Lq, kSizes.Lk});
    });
    EXPECT_NE(
        told(thrown[0]).find("the weighting " + def.name + " needs the scores of a whole row"),
        std::string::npos)
        << told(thrown[0]);
    EXPECT_EQ(told(thrown[1]), "Elsewhere 2");
    return;
  }
  for (const float dropout : {0.0f, 0.3f}) {
    weighting.dropout = dropout;
    for (const char* mask : {"everything", "causal", "local_p"}) {
      const MaskDef& term = **std::ranges::find(mask_table(), mask, &MaskDef::name);
      check(call(kSizes,
                 {.mask = generate::mask(term, kSizes, 5, {.width = 9}), .weighting = weighting}),
            mask);
      if (HasFatalFailure()) return;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(, EveryWeighting, testing::ValuesIn(weighting_table()), generate::kByName);

TEST(OverRanks, queries_and_keys_may_differ_in_number) {
  for (const auto& [Lq, Lk] : {std::pair{37, 150}, {150, 37}, {1, 90}, {130, 1}, {5, 3}, {70, 0}}) {
    const Sizes n = generate::sizes({.H = 2, .Hk = 1, .Lq = Lq, .Lk = Lk, .D = 16, .Dv = 16});
    check(call(n, {.mask = masks::causal()}), "causal " + std::to_string(Lq));
    check(call(n, {.mask = masks::causal() & masks::window(9, 0)}), "window " + std::to_string(Lq));
    if (HasFatalFailure()) return;
  }
}

TEST(OverRanks, biases_are_cut_and_learn) {
  const Sizes n = generate::sizes({.H = 2, .Hk = 2, .Lq = 70, .Lk = 83, .D = 8, .Dv = 8});
  Attention a{.mask = masks::causal()};
  a.score.bias = Bias{Tensor::randn({2, n.Lq + n.Lk - 1}, 1), true};
  check(call(n, a), "by distance");
  a.mask = masks::causal() & masks::matrix(Tensor::randn({n.Lq, n.Lk}, 2));
  check(call(n, a), "by distance and a matrix");
  a.score.bias = Bias{Tensor::randn({2, 1, n.Lk}, 3), false};
  a.score.softcap = 2.0f;
  check(call(n, a), "by key and a matrix, capped");
}

TEST(OverRanks, conditions_and_lengths_are_those_of_the_whole_call) {
  const Sizes n = generate::sizes({.H = 2, .Hk = 1, .Lq = 70, .Lk = 70, .D = 8, .Dv = 8});
  std::vector<int64_t> ids(2 * 70);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i * 7 % 5);
  const Tensor mixed = Tensor::from_ids(ids, {2, 70});
  std::vector<uint8_t> allowed(70 * 70);
  for (size_t i = 0; i < allowed.size(); ++i) allowed[i] = i * 13 % 10 < 7;
  const Mask matrix = masks::matrix(Tensor::from_bools(allowed, {70, 70}));
  const Mask both = masks::segments(mixed, mixed) & matrix;
  for (const char* name : {"scaled_dot", "mlp"}) {
    check(call(n, {.score = score_for(name, n), .mask = both & masks::causal()}), name);
    const Mask most = masks::lengths(Tensor::from_ids(std::vector<int64_t>{41, 0}, {2}));
    check(call(n, {.score = score_for(name, n),
                   .mask = most & both,
                   .weighting = weightings::softmax(0.7f, Tensor::randn({2}, 4))}),
          name);
    if (HasFatalFailure()) return;
  }
}

TEST(OverRanks, what_is_hidden_is_never_read) {
  const Sizes n = generate::sizes({.H = 2, .Hk = 1, .Lq = 70, .Lk = 70, .D = 8, .Dv = 8});
  for (const std::string& name : families()) {
    Call c = call(n, {.score = score_for(name, n),
                      .mask = masks::lengths(Tensor::from_ids(std::vector<int64_t>{40, 40}, {2}))});
    const Results clean = of_team(c, 3);
    for (Tensor* t : {&c.k, &c.v}) {
      *t = t->clone();
      t->slice(2, 40, 70).fill_(kNan);
    }
    const Results found = of_team(c, 3);
    for (const auto& [what, x] : found) {
      ASSERT_TRUE(all_finite(x)) << name << " " << what;
      expect_near(x, clean.at(what), {1e-6, 1e-6}, name + " " + what);
    }
    c.v.slice(2, 3, 4).fill_(kNan);  // seen by all
    EXPECT_FALSE(all_finite(of_team(c, 3).at("context")));
  }
}

TEST(OverRanks, ranks_two_and_three_are_taken) {
  const Sizes n{.B = 1, .H = 1, .Hk = 1, .Lq = 66, .Lk = 66, .Dq = 4, .Dk = 4, .Dv = 4};
  const Call c = call(n);
  const Tensor whole = attend(team::alone(), c.q, c.k, c.v, {}, {66, 66}).context;
  const auto flat = [](const Tensor& t) { return t.squeeze(1).squeeze(0); };
  const AttendedRows two = attend(team::alone(), flat(c.q), flat(c.k), flat(c.v), {}, {66, 66});
  EXPECT_EQ(two.context.shape(), (Shape{66, 4}));
  EXPECT_EQ(two.context.to_vector(), whole.to_vector());
}

TEST(OverRanks, what_does_not_fit_is_said_once) {
  const Sizes n{.B = 1, .H = 2, .Hk = 1, .Lq = 70, .Lk = 70, .Dq = 4, .Dk = 4, .Dv = 4};
  const Call c = call(n);
  const auto thrown = Threads(2).run([&](Team& team) {
    const auto mine = [&](const Tensor& t) { return rows_of_rank(t, 2, team); };
    attend(team, team.rank() == 0 ? c.q : mine(c.q), mine(c.k), mine(c.v), {}, {70, 70});
  });
  EXPECT_EQ(told(thrown[0]),
            "[attend] q has 70 rows, expected 35: what rank 0 of 2 holds of 70 (rows_of_rank)");
  EXPECT_EQ(told(thrown[1]), "Elsewhere 2");
  const auto differ = Threads(2).run([&](Team& team) {
    const auto mine = [&](const Tensor& t) { return rows_of_rank(t, 2, team); };
    const Attention a{.mask = team.rank() == 0 ? masks::causal() : masks::everything()};
    attend(team, mine(c.q), mine(c.k), mine(c.v), a, {70, 70});
  });
  EXPECT_NE(told(differ[0]).find("the processes differ in a call of attend(): rank 1 has B=1"),
            std::string::npos)
      << told(differ[0]);
}

// ---- Cut, balance and memory -------------------------------------------------------------------

TEST(SequenceCut, deals_every_row_once_and_as_many_to_all) {
  for (const int64_t length : {0, 1, 63, 70, 1000, 131072, 131073, 500000}) {
    for (const int ranks : {1, 2, 3, 4, 7}) {
      const SequenceCut cut(length, ranks);
      EXPECT_EQ(cut.chunks() % 64, 0);
      EXPECT_EQ(cut.chunks(), SequenceCut(length, 1).chunks());
      int64_t rows = 0;
      std::vector<int> dealt(static_cast<size_t>(cut.chunks()), -1);
      for (int r = 0; r < ranks; ++r) {
        int64_t place = 0;
        for (const int64_t c : cut.chunks_of(r)) {
          EXPECT_EQ(dealt[static_cast<size_t>(c)], -1);
          EXPECT_EQ(cut.owner_of(c), r);
          EXPECT_EQ(cut.place_of(c), place);
          EXPECT_LE(cut.chunk(c).size(), 2048);
          dealt[static_cast<size_t>(c)] = r;
          place += cut.chunk(c).size();
        }
        EXPECT_EQ(place, cut.row_count(r));
        rows += place;
      }
      EXPECT_EQ(rows, length);
    }
  }
}

TEST(SequenceCut, balances_causal_scores_within_ten_percent) {
  for (const int64_t length : {1000, 4096, 131072, 200000}) {
    const Sizes n{.B = 1, .H = 1, .Hk = 1, .Lq = length, .Lk = length, .Dq = 1, .Dk = 1, .Dv = 1};
    for (int ranks = 2; ranks <= kMostRanks; ++ranks) {
      const SequenceCut cut(length, ranks);
      double most = 0, all = 0;
      for (int r = 0; r < ranks; ++r) {
        double mine = 0;
        for (const int64_t c : cut.chunks_of(r)) {
          const RowRange rows = cut.chunk(c);
          const QueryRows q = lower_queries({.mask = masks::causal()}, n,
                                            Tensor::zeros({1, 1, rows.size(), 1}), rows.begin);
          mine += static_cast<double>(q.pairs_with({0, length}, n));
        }
        most = std::max(most, mine);
        all += mine;
      }
      const double pairs = static_cast<double>(length);
      EXPECT_EQ(all, pairs * (pairs + 1) / 2);
      EXPECT_LE(most, 1.1 * all / ranks) << length << " rows, " << ranks << " ranks";
    }
  }
}

// All ranks of a team are in this process: what they take together does not grow with their number
// but by the chunks that each has of everybody's keys.
TEST(OverRanksSerial, memory_of_a_rank_is_its_share) {
  const Sizes n{.B = 1, .H = 4, .Hk = 4, .Lq = 4096, .Lk = 4096, .Dq = 32, .Dk = 32, .Dv = 32};
  const int threads_before = threads();
  set_threads(1);
  std::vector<double> by_rank;
  for (const int ranks : {1, 2, 4}) {
    const int64_t before = memory_in_use();
    reset_memory_peak();
    Threads(ranks).run([&](Team& team) {
      const int64_t rows = SequenceCut(n.Lq, ranks).row_count(team.rank());
      Tensor x = Tensor::randn({1, 4, rows, 32}, 3).set_requires_grad();
      const AttendedRows a = attend(team, x, x, x, {.mask = masks::causal()}, {n.Lq, n.Lk});
      a.context.backward(a.context.detach());
    });
    by_rank.push_back(static_cast<double>(memory_peak() - before) / ranks);
  }
  set_threads(threads_before);
  EXPECT_LT(by_rank[1], 1.1 * by_rank[0] / 2) << by_rank[0];
  EXPECT_LT(by_rank[2], 1.2 * by_rank[0] / 4) << by_rank[0];
}

}  // namespace
}  // namespace fovea::tests
