#include "team/team.h"

#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>

#include "team/launched.h"
#include "tests/team/threads.h"

namespace fovea::team::tests {
namespace {

TEST(Team, of_one_gives_back_what_it_is_given) {
  Team& one = alone();
  EXPECT_EQ(one.size(), 1);
  EXPECT_EQ(gather(one, std::string("x")), std::vector<std::string>{"x"});
  EXPECT_EQ(broadcast(one, "all"), "all");
  EXPECT_EQ(gather(one, 7), std::vector<int>{7});
  EXPECT_THROW(together(one, [] { throw std::logic_error("mine"); }), std::logic_error);
  expect_alike(one, {{"anything", "goes"}});
}

TEST(Team, gathers_in_the_order_of_ranks_and_broadcasts_the_first) {
  for (const int ranks : {2, 3, 5}) {
    Threads threads(ranks);
    const auto thrown = threads.run([&](Team& team) {
      std::vector<int> all(static_cast<size_t>(ranks));
      std::iota(all.begin(), all.end(), 10);
      EXPECT_EQ(gather(team, team.rank() + 10), all);
      const std::string own(static_cast<size_t>(team.rank()), static_cast<char>('a' + team.rank()));
      const std::vector<std::string> texts = gather(team, own);  // one of them is empty
      EXPECT_EQ(texts[1], "b");
      EXPECT_EQ(texts[0], "");
      EXPECT_EQ(broadcast(team, team.is_first() ? "of the first" : "of another"), "of the first");
      double last = team.rank();
      team.broadcast(std::as_writable_bytes(std::span(&last, 1)), ranks - 1);
      EXPECT_EQ(last, ranks - 1);
      team.barrier();
    });
    for (const auto& one : thrown) EXPECT_EQ(told(one), "");
  }
}

TEST(Team, fails_as_one) {
  Threads threads(3);
  const auto one_of_three = threads.run([](Team& team) {
    together(team, [&] {
      if (team.rank() == 1) throw Error("work", "no");
    });
  });
  EXPECT_EQ(told(one_of_three[0]), "Elsewhere 2");
  EXPECT_EQ(told(one_of_three[1]), "[work] no");
  EXPECT_EQ(told(one_of_three[2]), "Elsewhere 2");

  const auto all_alike = threads.run(
      [](Team& team) { together(team, [] { throw std::runtime_error("everybody's"); }); });
  EXPECT_EQ(told(all_alike[0]), "everybody's");
  EXPECT_EQ(told(all_alike[1]), "Elsewhere 1");

  const auto each_its_own = threads.run([](Team& team) {
    together(team, [&] { throw Error("work", std::to_string(team.rank())); });
  });
  EXPECT_EQ(told(each_its_own[0]), "[work] 0");
  EXPECT_EQ(told(each_its_own[2]), "[work] 2");
}

TEST(Team, says_what_ranks_differ_in) {
  Threads threads(3);
  const auto thrown = threads.run([](Team& team) {
    expect_alike(team, {{"version", "1"}, {"data", team.rank() == 2 ? "b" : "a"}});
  });
  EXPECT_EQ(told(thrown[0]), "[team] the processes differ in data: rank 2 has b, rank 0 has a");
  EXPECT_EQ(told(thrown[1]), "Elsewhere 2");
  EXPECT_EQ(told(thrown[2]), "Elsewhere 2");
}

// ---- Launchers, as the environment tells of them -----------------------------------------------

struct Variable {
  Variable(const char* of, const char* value) : name(of) { ::setenv(of, value, 1); }
  ~Variable() { ::unsetenv(name); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  const char* name;
};

TEST(Launched, alone_where_there_is_one_process) {
  EXPECT_EQ(&launched(), &alone());
  EXPECT_EQ(launcher_of_several(), "");
  const Variable rank("OMPI_COMM_WORLD_RANK", "0"), size("OMPI_COMM_WORLD_SIZE", "1");
  EXPECT_EQ(&launched(), &alone());
  EXPECT_EQ(launcher_of_several(), "");
  const Variable script("SLURM_NTASKS", "8"), script_rank("SLURM_PROCID", "0");
  EXPECT_EQ(launcher_of_several(), "");
}

TEST(Launched, without_the_module_is_refused) {
  const Variable module("FOVEA_MPI_MODULE", "/nowhere/libfovea_mpi.so");
  const struct {
    const char *rank, *size, *name;
  } launchers[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "Open MPI"},
                   {"PMI_RANK", "PMI_SIZE", "MPICH"},
                   {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "Slurm"}};
  for (const auto& l : launchers) {
    const Variable rank(l.rank, "3"), size(l.size, "4");
    EXPECT_EQ(launcher_of_several(), l.name);
    EXPECT_EQ(launched_rank(), 3);
    try {
      launched();
      FAIL() << l.name;
    } catch (const Error& e) {
      const std::string text = e.what();
      EXPECT_NE(text.find(l.name + std::string(" as one of 4 processes")), std::string::npos)
          << text;
      EXPECT_NE(text.find("FOVEA_MPI_MODULE"), std::string::npos) << text;
    }
  }
  const Variable pmix("PMIX_RANK", "1");
  EXPECT_EQ(launcher_of_several(), "a PMIx launcher");
  EXPECT_THROW(launched(), Error);
}

}  // namespace
}  // namespace fovea::team::tests
