#include "kernels/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "core/processor.h"
#include "core/random.h"
#include "core/threads.h"
#include "fovea/runtime.h"

namespace fovea::kernels {
namespace {

std::vector<float> numbers(int64_t n, uint64_t seed) {
  const RandomKey key = random_key(seed, Purpose::tensor);
  std::vector<float> x(n);
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(2.0 * unit_open(bits32(key, i)) - 1.0);
  return x;
}

// Where element (r, c) of a rows×cols matrix lies.
enum class Layout { rows, columns, neither, backwards, repeated };
struct Strides {
  int64_t row, col, start, size;
};
Strides strides(Layout layout, int64_t rows, int64_t cols) {
  switch (layout) {
    case Layout::rows:
      return {cols, 1, 0, rows * cols};
    case Layout::columns:
      return {1, rows, 0, rows * cols};
    case Layout::neither:
      return {cols * 3, 3, 0, rows * cols * 3};
    case Layout::backwards:
      return {-cols, 1, (rows - 1) * cols, rows * cols};
    case Layout::repeated:
      return {0, 1, 0, cols};
  }
  return {};
}

// What is added to the product.
enum class Plus { nothing, there, bias, both };

void check(int64_t m, int64_t n, int64_t k, Layout la, Layout lb, float alpha, Plus plus) {
  SCOPED_TRACE(testing::Message() << m << "×" << n << "×" << k << " " << static_cast<int>(la) << " "
                                  << static_cast<int>(lb));
  const Strides sa = strides(la, m, k), sb = strides(lb, k, n);
  const auto a = numbers(sa.size, 1), b = numbers(sb.size, 2);
  auto c = numbers(m * (n + 3), 3);
  const auto before = c, bias = numbers(n, 4), matrix = numbers(m * (n + 1), 5);
  const bool has_bias = plus == Plus::bias || plus == Plus::both;
  const float* added = plus == Plus::there ? c.data() : nullptr;
  if (plus == Plus::both) added = matrix.data();
  const int64_t added_row = plus == Plus::there ? n + 3 : n + 1;
  gemm({.m = m,
        .n = n,
        .k = k,
        .a = a.data() + sa.start,
        .a_row = sa.row,
        .a_col = sa.col,
        .b = b.data() + sb.start,
        .b_row = sb.row,
        .b_col = sb.col,
        .c = c.data(),
        .c_row = n + 3,
        .alpha = alpha,
        .bias = has_bias ? bias.data() : nullptr,
        .plus = added,
        .plus_row = added_row});
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0.0;
      for (int64_t p = 0; p < k; ++p) {
        sum += static_cast<double>(a[sa.start + i * sa.row + p * sa.col]) *
               b[sb.start + p * sb.row + j * sb.col];
      }
      double expected = alpha * sum;
      if (has_bias) expected += bias[j];
      if (plus == Plus::there) expected += before[i * (n + 3) + j];
      if (plus == Plus::both) expected += matrix[i * (n + 1) + j];
      ASSERT_NEAR(c[i * (n + 3) + j], expected, 1e-5 * (1.0 + std::sqrt(double(k))))
          << i << " " << j;
    }
    for (int64_t j = n; j < n + 3; ++j) ASSERT_EQ(c[i * (n + 3) + j], before[i * (n + 3) + j]);
  }
}

TEST(Gemm, AnyStrides) {
  const Layout all[] = {Layout::rows, Layout::columns, Layout::neither, Layout::backwards,
                        Layout::repeated};
  for (const Layout la : all) {
    for (const Layout lb : all) {
      check(5, 7, 9, la, lb, 1.0f, Plus::nothing);
      check(1, 1, 1, la, lb, 1.0f, Plus::nothing);
      check(1, 8, 3, la, lb, 0.5f, Plus::there);
      check(8, 1, 3, la, lb, 0.5f, Plus::there);
    }
  }
}

TEST(Gemm, LargerThanABlock) {
  check(131, 259, 33, Layout::rows, Layout::columns, 2.0f, Plus::bias);
  check(700, 17, 40, Layout::columns, Layout::rows, 1.0f, Plus::nothing);
  check(70, 129, 300, Layout::rows, Layout::rows, 1.0f, Plus::there);   // few blocks: cut finer
  check(9, 600, 200, Layout::rows, Layout::rows, 1.0f, Plus::nothing);  // few rows: wider
  check(390, 2050, 3, Layout::rows, Layout::rows, 1.0f, Plus::bias);    // many blocks: larger
  check(400, 2100, 3, Layout::columns, Layout::columns, 1.0f, Plus::nothing);
}

// Those that pack B once for all: cut in k, in columns, in both; whole and odd sizes.
TEST(Gemm, Large) {
  for (const Layout a : {Layout::rows, Layout::columns, Layout::neither, Layout::backwards}) {
    for (const Layout b : {Layout::rows, Layout::columns, Layout::neither, Layout::repeated}) {
      check(261, 301, 523, a, b, 1.0f, Plus::nothing);
    }
    check(193, 131, 1601, a, Layout::rows, 0.5f, Plus::there);
    check(192, 2115, 100, a, Layout::columns, 1.0f, Plus::both);
  }
  check(198, 192, 5300, Layout::columns, Layout::rows, 1.0f, Plus::nothing);
  check(192, 2240, 600, Layout::rows, Layout::columns, -1.0f, Plus::there);
}

// One number of A reaches one row, one of B one column; what was in C reaches nothing.
TEST(Gemm, NaNStaysInItsRowAndColumn) {
  const float nan = std::nanf("");
  const int64_t m = 200, n = 330, k = 600;
  auto a = numbers(m * k, 1), b = numbers(k * n, 2);
  a[7 * m + 5] = nan;    // A[5][7], columns in memory
  b[9 * n + 328] = nan;  // B[9][328]
  std::vector<float> c(m * n, nan);
  gemm({.m = m,
        .n = n,
        .k = k,
        .a = a.data(),
        .a_row = 1,
        .a_col = m,
        .b = b.data(),
        .b_row = n,
        .c = c.data(),
        .c_row = n});
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      ASSERT_EQ(std::isnan(c[i * n + j]), i == 5 || j == 328) << i << " " << j;
    }
  }
}

// Tiles, panels, tails, packed and in place, few rows: each path on each instruction set.
TEST(Gemm, EveryInstructionSet) {
  for (const std::string& isa : isas()) {
    SCOPED_TRACE(isa);
    use_isa(isa);
    for (const Layout a : {Layout::rows, Layout::columns, Layout::neither}) {
      for (const Layout b : {Layout::rows, Layout::columns, Layout::neither}) {
        check(19, 67, 35, a, b, 1.0f, Plus::nothing);
        check(13, 70, 530, a, b, 0.5f, Plus::there);  // deeper than a panel
        check(3, 9, 21, a, b, 1.0f, Plus::there);
        check(1, 130, 50, a, b, -1.0f, Plus::both);
      }
    }
    for (const int64_t m : {1, 2, 3, 4, 5}) {  // columns read from end to end
      for (const int64_t k : {1, 15, 16, 63, 64, 150}) {
        check(m, 13, k, Layout::rows, Layout::columns, 0.5f, Plus::there);
      }
    }
    check(200, 130, 1300, Layout::columns, Layout::rows, 1.0f, Plus::nothing);
    check(193, 200, 901, Layout::rows, Layout::columns, 1.0f, Plus::there);
    check(30, 1024, 8, Layout::rows, Layout::rows, 1.0f,
          Plus::nothing);  // rows that share cache sets
  }
  use_isa("");
}

TEST(Gemm, WithNothingToSumWhatIsAddedRemains) {
  const std::vector<float> bias{10, 20};
  std::vector<float> c{1, 2, 3, 4};
  gemm({.m = 2,
        .n = 2,
        .k = 0,
        .c = c.data(),
        .c_row = 2,
        .bias = bias.data(),
        .plus = c.data(),
        .plus_row = 2});
  EXPECT_EQ(c, (std::vector<float>{11, 22, 13, 24}));
  c.assign(4, std::nanf(""));
  gemm({.m = 2, .n = 2, .k = 0, .c = c.data(), .c_row = 2});
  EXPECT_EQ(c, (std::vector<float>{0, 0, 0, 0}));
}

TEST(Gemm, NaNInTheOutputIsOverwritten) {
  const auto a = numbers(64, 1), b = numbers(64, 2);
  std::vector<float> c(64, std::nanf(""));
  gemm({.m = 8,
        .n = 8,
        .k = 8,
        .a = a.data(),
        .a_row = 8,
        .b = b.data(),
        .b_row = 8,
        .c = c.data(),
        .c_row = 8});
  for (const float v : c) EXPECT_EQ(v, v);
}

TEST(Gemm, ThreadsDoNotMatter) {
  const int before = threads();
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{513, 700, 129},
                                {2048, 64, 256},
                                {200, 330, 1100},
                                {8, 2048, 512},
                                {1, 2050, 515},
                                {64, 64, 20000},
                                {300, 1, 300}}) {
    for (const Layout la : {Layout::rows, Layout::columns}) {
      for (const Layout lb : {Layout::rows, Layout::columns}) {
        const Strides sa = strides(la, m, k), sb = strides(lb, k, n);
        const auto a = numbers(m * k, 1), b = numbers(k * n, 2);
        std::vector<std::vector<float>> results;
        for (const int t : {1, 2, 5}) {
          set_threads(t);
          std::vector<float> c(m * n);
          gemm({.m = m,
                .n = n,
                .k = k,
                .a = a.data(),
                .a_row = sa.row,
                .a_col = sa.col,
                .b = b.data(),
                .b_row = sb.row,
                .b_col = sb.col,
                .c = c.data(),
                .c_row = n});
          results.push_back(std::move(c));
        }
        EXPECT_EQ(results[0], results[1]) << m << " " << n << " " << k;
        EXPECT_EQ(results[0], results[2]) << m << " " << n << " " << k;
      }
    }
  }
  set_threads(before);
}

TEST(Gemm, Batches) {
  const auto a = numbers(3 * 20, 1), b = numbers(30, 2);
  const int64_t a_at[] = {0, 20, 40, 0}, b_at[] = {0, 0, 0, 0};
  std::vector<float> c(4 * 24);
  gemm({.m = 4,
        .n = 6,
        .k = 5,
        .a = a.data(),
        .a_row = 5,
        .b = b.data(),
        .b_row = 6,
        .c = c.data(),
        .c_row = 6,
        .batch = 4,
        .a_at = a_at,
        .b_at = b_at,
        .c_step = 24});
  for (int s = 0; s < 4; ++s) {
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 6; ++j) {
        double sum = 0.0;
        for (int p = 0; p < 5; ++p) sum += a[a_at[s] + i * 5 + p] * b[p * 6 + j];
        EXPECT_NEAR(c[s * 24 + i * 6 + j], sum, 1e-5);
      }
    }
  }
}

// ---- The list of implementations ---------------------------------------------------------------

std::string way_of(int64_t m, int64_t n, int64_t k, Layout lb = Layout::rows) {
  const Strides sb = strides(lb, k, n);
  return gemm_way({.m = m, .n = n, .k = k, .a_row = k, .b_row = sb.row, .b_col = sb.col}).name;
}

TEST(GemmWays, AreChosenBySizeAndStrides) {
  EXPECT_EQ(way_of(4, 4, 0), "nothing to sum");
  EXPECT_EQ(way_of(1024, 1024, 1024), "large");
  EXPECT_EQ(way_of(191, 1024, 1024), "blocks");
  EXPECT_EQ(way_of(19, 512, 512, Layout::columns), "few rows");
  EXPECT_EQ(way_of(20, 512, 512, Layout::columns), "blocks");
  EXPECT_EQ(way_of(1, 512, 512), "blocks");
}

// Whether the processor has an extension, as the system calls it, beside AVX-512.
bool avx512_has(const char* extension) {
  const std::vector<std::string> all = processor().arithmetic;
  const std::string best = isas().front();
  return (best == "amx" || best.starts_with("avx3")) &&
         std::find(all.begin(), all.end(), extension) != all.end();
}

TEST(GemmWays, NarrowLeftsAreForManyRowsOfNarrowWeights) {
  const auto way = [](int64_t m, Number type, Layout lb, int64_t scale_row) {
    const Strides sb = strides(lb, 512, 512);
    return std::string(gemm_way({.m = m,
                                 .n = 512,
                                 .k = 512,
                                 .a_row = 512,
                                 .b_row = sb.row,
                                 .b_col = sb.col,
                                 .b_type = type,
                                 .scale_row = scale_row})
                           .name);
  };
  const bool there = avx512_has("avx512_vnni");
  EXPECT_EQ(way(20, Number::i8, Layout::columns, 0), there ? "bytes" : "blocks");
  EXPECT_EQ(way(512, Number::i8, Layout::columns, 0), there ? "bytes" : "large");
  EXPECT_EQ(way(19, Number::i8, Layout::columns, 0), "few rows");
  const bool pairs = avx512_has("avx512_bf16");
  EXPECT_EQ(way(20, Number::bf16, Layout::columns, 0), pairs ? "pairs" : "blocks");
  EXPECT_EQ(way(512, Number::bf16, Layout::columns, 0), pairs ? "pairs" : "large");
  EXPECT_EQ(way(19, Number::bf16, Layout::columns, 0), "few rows");
  EXPECT_EQ(way(512, Number::bf16, Layout::rows, 0), "large");
  EXPECT_EQ(way(512, Number::f16, Layout::columns, 0), "large");
  EXPECT_EQ(way(512, Number::i8, Layout::rows, 1), "large");
  use_isa(isas().back());
  EXPECT_EQ(way(20, Number::i8, Layout::columns, 0), "blocks");
  use_isa("");
}

// Every implementation that can do a product computes it, gemm() by the first of them.
TEST(GemmWays, AgreeWhereSeveralCan) {
  for (const auto& [m, n, k] :
       {std::array<int64_t, 3>{3, 70, 33}, {19, 130, 64}, {200, 450, 400}}) {
    const auto a = numbers(m * k, 1), b = numbers(k * n, 2);
    const auto by = [&](void (*run)(const Gemm&)) {
      std::vector<float> c(static_cast<size_t>(m * n));
      run({.m = m,
           .n = n,
           .k = k,
           .a = a.data(),
           .a_row = k,
           .b = b.data(),
           .b_row = 1,
           .b_col = k,
           .c = c.data(),
           .c_row = n});
      return c;
    };
    const std::vector<float> chosen = by(gemm);
    int ways = 0;
    for (const GemmWay& way : gemm_ways()) {
      if (!way.can({.m = m, .n = n, .k = k, .a_row = k, .b_row = 1, .b_col = k})) continue;
      const std::vector<float> c = by(way.run);
      EXPECT_TRUE(ways++ > 0 || c == chosen) << way.name;
      for (size_t i = 0; i < c.size(); ++i) ASSERT_NEAR(c[i], chosen[i], 1e-4) << way.name;
    }
    EXPECT_EQ(ways, 2) << m;
  }
}

}  // namespace
}  // namespace fovea::kernels
