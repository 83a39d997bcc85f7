#include "tasks/deal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "fovea/runtime.h"
#include "tests/team/threads.h"

namespace fovea::tasks {
namespace {

using team::Team;
using team::tests::Threads;
using team::tests::told;

struct Result {
  std::vector<float> numbers;
  std::string text;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Result, numbers, text)

Result of_part(size_t i) {
  const float x = static_cast<float>(i);
  return {{1 / (x + 3), -0.0f, 1e-42f * x, std::numeric_limits<float>::infinity()},
          "any bytes: \xff" + std::to_string(i)};
}

// In the order in which they were taken.
std::vector<Result> taken(const ShareDone& done, size_t n) {
  std::vector<Result> all;
  deal(done, n, of_part, [&](size_t i, Result r) {
    EXPECT_EQ(i, all.size());
    all.push_back(std::move(r));
  });
  return all;
}

TEST(Deal, gives_every_rank_what_one_process_finds_in_its_order) {
  for (const size_t n : {0, 1, 2, 7}) {
    std::vector<Result> expected;
    for (size_t i = 0; i < n; ++i) expected.push_back(of_part(i));
    for (const int ranks : {1, 2, 3, 4}) {
      Threads threads(ranks);
      const auto thrown = threads.run([&](Team& team) {
        std::vector<double> shares;
        const ShareDone done(team, [&](double share) { shares.push_back(share); });
        const std::vector<Result> found = taken(done, n);
        ASSERT_EQ(found.size(), n);
        for (size_t i = 0; i < n; ++i) {
          EXPECT_EQ(found[i].numbers, expected[i].numbers);
          EXPECT_TRUE(std::signbit(found[i].numbers[1]));
          EXPECT_EQ(found[i].text, expected[i].text);
          EXPECT_EQ(shares[i], static_cast<double>(i + 1) / static_cast<double>(n));
        }
      });
      for (const auto& one : thrown) EXPECT_EQ(told(one), "");
    }
  }
}

TEST(Deal, does_each_part_once) {
  std::atomic<int> done_in_all{0};
  Threads threads(3);
  const auto thrown = threads.run([&](Team& team) {
    const auto work = [&](size_t i) { return ++done_in_all, static_cast<int64_t>(i); };
    deal({team, nullptr}, 8, work,
         [](size_t i, int64_t found) { EXPECT_EQ(static_cast<size_t>(found), i); });
  });
  for (const auto& one : thrown) EXPECT_EQ(told(one), "");
  EXPECT_EQ(done_in_all, 8);
}

TEST(Deal, fails_on_all_where_a_part_fails) {
  Threads threads(3);
  const auto thrown = threads.run([](Team& team) {
    const auto work = [](size_t i) {
      if (i == 4) throw Error("work", "no");
      return i;
    };
    deal({team, nullptr}, 8, work, [](size_t, size_t) {});
  });
  EXPECT_EQ(told(thrown[0]), "Elsewhere 2");
  EXPECT_EQ(told(thrown[1]), "[work] no");  // part 4 is the second round's second
  EXPECT_EQ(told(thrown[2]), "Elsewhere 2");
}

TEST(Deal, stops_on_all_where_one_is_asked_to) {
  for (const int ranks : {1, 2, 3}) {
    std::atomic<bool> stop{false};
    std::atomic<int> stopped{0};
    Threads threads(ranks);
    const auto thrown = threads.run([&](Team& team) {
      const bool asked = team.rank() == ranks - 1;
      size_t count = 0;
      const auto work = [&](size_t i) {
        if (asked && i >= 4) stop = true;
        return i;
      };
      try {
        deal({team, nullptr, asked ? &stop : nullptr}, 100, work, [&](size_t, size_t) { ++count; });
      } catch (const train::Stopped&) {
        ++stopped;
        EXPECT_LT(count, 10U);
      }
    });
    for (const auto& one : thrown) EXPECT_EQ(told(one), "");
    EXPECT_EQ(stopped, ranks);
  }
}

TEST(Deal, says_that_ranks_cut_their_work_otherwise) {
  Threads threads(2);
  const auto thrown = threads.run([](Team& team) {
    taken({team, nullptr}, team.is_first() ? 4 : 5);
  });
  EXPECT_EQ(told(thrown[0]),
            "[team] the processes differ in the parts of their work: rank 1 has 5, rank 0 has 4");
  EXPECT_EQ(told(thrown[1]), "Elsewhere 2");
}

// What is compared is what the program is: another version is said with this one's.
TEST(Deal, says_that_a_rank_is_of_another_version) {
  Threads threads(3);
  const auto thrown = threads.run([](Team& team) {
    if (team.rank() < 2) return expect_same_program(team, {});
    team::expect_alike(team, {{"instruction set", isa()}, {"version", "0.0.1"}});
  });
  EXPECT_EQ(told(thrown[0]), std::string("[team] the processes differ in version: rank 2 has "
                                         "0.0.1, rank 0 has ") +
                                 version());
  EXPECT_EQ(told(thrown[1]), "Elsewhere 2");
  const auto alike = threads.run([](Team& team) { expect_same_program(team, {{"seed", "1"}}); });
  for (const auto& one : alike) EXPECT_EQ(told(one), "");
}

}  // namespace
}  // namespace fovea::tasks
