#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "core/allocator.h"
#include "core/random.h"
#include "core/threads.h"
#include "fovea/error.h"
#include "fovea/runtime.h"
#include "tests/core/with_threads.h"
#include "tests/reduced.h"

namespace fovea {
namespace {

TEST(Error, TellsItsMessageWithoutTheCall) {
  EXPECT_EQ(Error("attend", "k has D=48, q has D=64").message(), "k has D=48, q has D=64");
  EXPECT_EQ(Error("", "[x] y").message(), "[x] y");
  EXPECT_FALSE(Error("attend", "").message().empty());
}

TEST(Error, NamesTheCall) {
  const Error e("attend", "k has D=48, q has D=64");
  EXPECT_STREQ(e.what(), "[attend] k has D=48, q has D=64");
  EXPECT_EQ(e.call(), "attend");
}

TEST(Threads, EveryIndexOnce) {
  for (const int n : {1, 2, 4}) {
    const Threads with(n);
    for (const int64_t count : {0, 1, 2, 7, 1000}) {
      std::vector<int> hits(count, 0);  // plain: the loop orders its workers' writes
      parallel_for(count, [&](int64_t i) { ++hits[i]; });
      EXPECT_EQ(std::accumulate(hits.begin(), hits.end(), int64_t{0}), count);
      for (const int h : hits) EXPECT_EQ(h, 1);
    }
  }
}

TEST(Threads, RepeatedRegionsSeeEachOther) {
  const Threads with(4);
  std::vector<int64_t> value(64, 0);
  for (int round = 0; round < 200; ++round) {
    parallel_for(64, [&](int64_t i) { value[i] += i; });
    value[round % 64] += 1;
  }
  int64_t total = 0;
  for (const int64_t v : value) total += v;
  EXPECT_EQ(total, 200 * (63 * 64 / 2) + 200);
}

TEST(Threads, NestedCallsRunInline) {
  const Threads with(4);
  std::atomic<int> total{0};
  std::atomic<bool> moved{false};
  parallel_for(8, [&](int64_t) {
    const auto here = std::this_thread::get_id();
    const Crew crew;
    if (crew.size() != 1) moved = true;
    crew.run(8, [&](int64_t, int place) {
      ++total;
      if (std::this_thread::get_id() != here || place != 0) moved = true;
    });
  });
  EXPECT_EQ(total, 64);
  EXPECT_FALSE(moved);
}

TEST(Crew, PlacesAreBelowItsSize) {
  const Threads with(3);
  const Crew crew;
  ASSERT_EQ(crew.size(), 3);
  std::vector<std::atomic<int>> seen(3);
  crew.run(300, [&](int64_t, int place) { ++seen.at(place); });
  crew.run(300, 1, [&](int64_t, int place) { ++seen.at(place); });
  EXPECT_EQ(seen[0] + seen[1] + seen[2], 600);
}

// Scratch that was made for a crew fits it, whatever is chosen meanwhile.
TEST(Crew, StaysAsItIsWhenTheNumberOfThreadsChanges) {
  const Threads before(1);
  const Crew alone;
  set_threads(2);
  const Crew two;
  set_threads(8);
  const auto here = std::this_thread::get_id();
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    alone.run(8, [&](int64_t, int place) {
      EXPECT_EQ(place, 0);
      EXPECT_EQ(std::this_thread::get_id(), here);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // for others to come
    });
    two.run(8, [&](int64_t, int place) {
      EXPECT_LT(place, 2);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
  }
}

TEST(Threads, ExceptionsReachTheCaller) {
  for (const int n : {1, 4}) {
    const Threads with(n);
    EXPECT_THROW(parallel_for(100,
                              [](int64_t i) {
                                if (i == 37) throw Error("body", "37");
                              }),
                 Error);
    int after = 0;
    parallel_for(1, [&](int64_t) { ++after; });
    EXPECT_EQ(after, 1);
  }
}

TEST(Threads, CallersFromSeveralThreads) {
  const Threads with(2);
  std::vector<std::thread> callers;
  std::vector<int64_t> sums(4, 0);
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&sums, c] {
      for (int round = 0; round < 50; ++round) {
        std::vector<int64_t> part(10, 0);
        parallel_for(10, [&](int64_t i) { part[i] = i; });
        sums[c] += std::accumulate(part.begin(), part.end(), int64_t{0});
      }
    });
  }
  for (auto& t : callers) t.join();
  for (const int64_t s : sums) EXPECT_EQ(s, 50 * 45);
}

TEST(Threads, CountIsChecked) {
  EXPECT_THROW(set_threads(0), Error);
  EXPECT_THROW(set_threads(-3), Error);
}

TEST(Memory, AlignedAndReused) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{64}, size_t{65}, size_t{1000},
                             size_t{1} << 16, (size_t{5} << 20) + 1}) {
    auto block = allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.get()) % 64, 0u);
    std::memset(block.get(), 1, bytes);
    void* const address = block.get();
    block.reset();
    EXPECT_EQ(allocate(bytes).get(), address) << bytes;
  }
}

TEST(Memory, SizeClassesHoldWhatIsAsked) {
  const int64_t before = memory_in_use();
  for (size_t bytes = 1; bytes < (size_t{1} << 40); bytes = bytes * 5 / 4 + 1) {
    if (bytes > (size_t{1} << 22)) break;
    const auto block = allocate(bytes);
    const auto held = static_cast<size_t>(memory_in_use() - before);
    EXPECT_GE(held, bytes);
    EXPECT_LE(held, std::max<size_t>(bytes + 63, bytes + bytes / 8)) << bytes;
  }
  EXPECT_EQ(memory_in_use(), before);
}

TEST(Memory, PeakCounts) {
  const int64_t before = memory_in_use();
  reset_memory_peak();
  EXPECT_EQ(memory_peak(), before);
  { const auto a = allocate(1 << 20), b = allocate(1 << 20); }
  EXPECT_EQ(memory_in_use(), before);
  EXPECT_EQ(memory_peak(), before + 2 * (1 << 20));
  reset_memory_peak();
  EXPECT_EQ(memory_peak(), before);
}

// In bytes: what the process has of the machine's.
int64_t resident() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, pages = 0;
  file >> all >> pages;
  return pages * 4096;
}

TEST(Memory, WhatIsKeptGoesBackToTheSystem) {
  constexpr int64_t kBlocks = 12, kBytes = int64_t{9} << 20;
  std::vector<std::shared_ptr<void>> above;  // of the heap, which so cannot shrink from its end
  const auto use = [&] {
    std::vector<std::shared_ptr<void>> some;
    for (int64_t i = 0; i < kBlocks; ++i) {
      some.push_back(allocate(kBytes));
      std::memset(some.back().get(), 1, kBytes);
    }
    above.push_back(allocate(int64_t{3} << 20));
  };
  { const auto larger = allocate(2 * kBytes); }
  release_memory();  // malloc has seen a larger block come back: from now on such are of the heap
  use();
  EXPECT_GE(memory_kept(), kBlocks * kBytes);
  const int64_t kept = memory_kept(), before = resident();
  release_memory(kept);
  EXPECT_EQ(memory_kept(), kept) << "no more than that is kept";
  release_memory(kept - 1);
  EXPECT_EQ(memory_kept(), 0);
  if (!test::reduced()) {
    EXPECT_LT(resident(), before - kBlocks * kBytes / 2);
  }
}

TEST(Memory, PoisonShows) {
  poison_memory(true);
  const Buffer<float> b(100);
  poison_memory(false);
  for (int64_t i = 0; i < 100; ++i) EXPECT_NE(b[i], b[i]);
}

TEST(Memory, RefusalThrows) {
  EXPECT_THROW(allocate(size_t{1} << 61), Error);
  EXPECT_THROW(allocate(~size_t{0}), Error);
}

TEST(Memory, ManyThreads) {
  std::vector<std::thread> all;
  for (int t = 0; t < 4; ++t) {
    all.emplace_back([t] {
      for (int i = 0; i < 2000; ++i) {
        const auto block = allocate(64 + 64 * ((i * 7 + t) % 50));
        *static_cast<int*>(block.get()) = t;
        ASSERT_EQ(*static_cast<int*>(block.get()), t);
      }
    });
  }
  for (auto& t : all) t.join();
}

TEST(Isa, EachCanBeChosen) {
  const std::string best = isas().front();
  for (const std::string& name : isas()) {
    use_isa(name);
    EXPECT_EQ(isa(), name);
  }
  use_isa("");
  EXPECT_EQ(isa(), best);
  try {
    use_isa("sse9");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(
        std::string(e.what()).find("[use_isa] no instruction set 'sse9' here; there are " + best),
        std::string::npos)
        << e.what();
  }
  EXPECT_EQ(isa(), best);
}

TEST(Version, IsThree) { EXPECT_EQ(std::string(version()).find('.'), 1u); }

// χ² over 256 cells with 2^20 draws: mean 255, deviation √510; 6 deviations.
double chi_square(const std::vector<int64_t>& cells, double expected) {
  double x = 0.0;
  for (const int64_t c : cells) {
    const double d = static_cast<double>(c) - expected;
    x += d * d / expected;
  }
  return x;
}

TEST(Random, EveryByteIsUniform) {
  for (const uint64_t seed : {0u, 1u, 42u}) {
    const RandomKey key = random_key(seed, Purpose::dropout, seed);
    for (int shift = 0; shift < 32; shift += 8) {
      std::vector<int64_t> cells(256, 0);
      for (uint64_t i = 0; i < (1u << 20); ++i) ++cells[(bits32(key, i) >> shift) & 255];
      const double x = chi_square(cells, 4096.0);
      EXPECT_LT(std::abs(x - 255.0), 6 * std::sqrt(510.0)) << seed << " " << shift;
    }
  }
}

TEST(Random, NeighboursAndStreamsAreIndependent) {
  const RandomKey a = random_key(7, Purpose::tensor), b = random_key(8, Purpose::tensor);
  const RandomKey c = random_key(7, Purpose::gumbel);
  const auto joint = [](auto x, auto y) {
    std::vector<int64_t> cells(256, 0);
    for (uint64_t i = 0; i < (1u << 20); ++i) ++cells[(x(i) >> 28 << 4) | (y(i) >> 28)];
    return chi_square(cells, 4096.0);
  };
  const auto at = [](RandomKey k, uint64_t step) {
    return [=](uint64_t i) { return bits32(k, i + step); };
  };
  for (const double x : {joint(at(a, 0), at(a, 1)), joint(at(a, 0), at(b, 0)),
                         joint(at(a, 0), at(c, 0)), joint(at(a, 0), at(a, uint64_t{1} << 32))}) {
    EXPECT_LT(std::abs(x - 255.0), 6 * std::sqrt(510.0));
  }
}

// The published values of FNV-1a.
TEST(Random, HashesAreFnv) {
  static_assert(hash_of("") == 0xcbf29ce484222325u);
  static_assert(hash_of("a") == 0xaf63dc4c8601ec8cu);
  static_assert(hash_of("foobar") == 0x85944171f73967e8u);
  static_assert(hash_of("bar", hash_of("foo")) == hash_of("foobar"));
}

TEST(Random, SeedsDifferByPlace) {
  std::set<uint64_t> seen;
  size_t places = 0;
  const auto add = [&](Seed s) { seen.insert(s.value()), ++places; };
  for (const uint64_t seed : {0, 1, 2}) {
    const Seed root(seed);
    add(root);
    for (const char* name : {"", "0", "a", "b", "ab"}) {
      add(root.at(name));
      add(root.at(name).at("a"));
      add(root.at("a").at("c").at(name));
      for (int64_t i = -1; i < 50; ++i) add(root.at(name).at(i));
    }
    for (int64_t i = -1; i < 50; ++i) add(root.at(i));
  }
  EXPECT_EQ(seen.size(), places);
  EXPECT_EQ(Seed(3).at("a").at(4).value(), Seed(3).at("a").at(4).value());
  EXPECT_NE(Seed(3).at("a").at("b").value(), Seed(3).at("b").at("a").value());
}

TEST(Random, UnitIsOpen) {
  EXPECT_GT(unit_open(0), 0.0);
  EXPECT_LT(unit_open(0xffffffffu), 1.0);
}

TEST(Random, CoordinatesMatter) {
  std::set<std::pair<uint32_t, uint32_t>> keys;
  for (uint64_t x = 0; x < 8; ++x) {
    for (uint64_t y = 0; y < 8; ++y) {
      for (uint64_t z = 0; z < 8; ++z) {
        const RandomKey k = random_key(1, Purpose::tensor, x, y, z);
        keys.emplace(k.a, k.b);
      }
    }
  }
  EXPECT_EQ(keys.size(), 512u);
}

}  // namespace
}  // namespace fovea
