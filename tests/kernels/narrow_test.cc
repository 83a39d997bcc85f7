// Weights in fewer bits: conversions, and products with them.
#include "kernels/narrow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "core/random.h"
#include "core/threads.h"
#include "fovea/runtime.h"
#include "kernels/gemm.h"
#include "kernels/screen.h"

namespace fovea::kernels {
namespace {

constexpr Number kNarrow[] = {Number::bf16, Number::f16, Number::i8};

std::vector<float> drawn(int64_t n, uint64_t seed) {
  const RandomKey key = random_key(seed, Purpose::tensor);
  std::vector<float> x(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    x[static_cast<size_t>(i)] = static_cast<float>(2.0 * unit_open(bits32(key, i)) - 1.0);
  }
  return x;
}

// Rows of weights, each in other units, as they are kept, and what they stand for by arithmetic of
// our own.
struct Kept {
  Number type;
  int64_t rows, cols;
  std::vector<float> was;
  std::vector<uint8_t> bytes;
  std::vector<float> scale;
  Narrowed cost;

  Kept(Number t, int64_t r, int64_t c, uint64_t seed) : type(t), rows(r), cols(c) {
    was = drawn(rows * cols, seed);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < cols; ++j) at(was, i, j) *= static_cast<float>(1 + i % 5);
    }
    keep();
  }
  void keep() {
    bytes.assign(static_cast<size_t>(rows * cols * size_of(type)), 0xff);
    scale.assign(static_cast<size_t>(rows), 0.0f);
    cost = narrow_rows({was.data(), Number::f32, nullptr, cols, cols}, rows, type, bytes.data(),
                       scale.data());
  }
  float& at(std::vector<float>& x, int64_t i, int64_t j) const {
    return x[static_cast<size_t>(i * cols + j)];
  }
  WeightRows kept() const {
    return {bytes.data(), type, type == Number::i8 ? scale.data() : nullptr, cols, cols};
  }
  double is(int64_t i, int64_t j) const {
    const auto at = static_cast<size_t>(i * cols + j);
    if (type == Number::i8) {
      return static_cast<double>(static_cast<int8_t>(bytes[at])) *
             static_cast<double>(scale[static_cast<size_t>(i)]);
    }
    const uint32_t bits = bytes[2 * at] | uint32_t{bytes[2 * at + 1]} << 8;
    if (type == Number::bf16) return static_cast<double>(std::bit_cast<float>(bits << 16));
    const double sign = (bits & 0x8000u) != 0 ? -1.0 : 1.0;
    const int exponent = static_cast<int>(bits >> 10 & 31u);
    const double mantissa = bits & 1023u;
    if (exponent == 0) return sign * std::ldexp(mantissa, -24);
    return sign * std::ldexp(1024.0 + mantissa, exponent - 25);
  }
};

const char* name_of(Number n) {
  return n == Number::bf16 ? "bf16" : n == Number::f16 ? "f16" : n == Number::i8 ? "i8" : "f32";
}

// Of numbers that become 8 bits with one scale.
double half_a_step(const float* x, int64_t n) {
  float most = 0.0f;
  for (int64_t i = 0; i < n; ++i) most = std::max(most, std::abs(x[i]));
  return static_cast<double>(most) / 254.0;
}
double sizes(const double* x, int64_t n) {
  return std::accumulate(x, x + n, 0.0, [](double sum, double w) { return sum + std::abs(w); });
}

// C = A·Wᵀ, or A·W, with what is added; beside float64 of the same weights, all rows of few and
// some of many.
enum class Use { transposed, as_it_is };
void expect_product(int64_t m, const Kept& w, Use use, float alpha = 1.0f) {
  const bool across = use == Use::transposed;
  const int64_t k = across ? w.cols : w.rows, n = across ? w.rows : w.cols;
  SCOPED_TRACE(testing::Message() << name_of(w.type) << " " << m << "×" << n << "×" << k
                                  << (across ? " transposed" : ""));
  const auto a = drawn(m * (k + 2), 7), bias = drawn(n, 8);
  std::vector<float> c(static_cast<size_t>(m * (n + 1)), std::nanf(""));
  const Gemm g{.m = m,
               .n = n,
               .k = k,
               .a = a.data(),
               .a_row = k + 2,
               .b = w.bytes.data(),
               .b_row = across ? 1 : w.cols,
               .b_col = across ? w.cols : 1,
               .b_type = w.type,
               .b_scale = w.kept().scale,
               .scale_row = across ? 0 : 1,
               .scale_col = across ? 1 : 0,
               .c = c.data(),
               .c_row = n + 1,
               .alpha = alpha,
               .bias = bias.data()};
  gemm(g);
  const std::string way = gemm_way(g).name;
  std::vector<double> weights;  // [n,k]
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t p = 0; p < k; ++p) weights.push_back(across ? w.is(j, p) : w.is(p, j));
  }
  for (int64_t i = 0; i<m; i += m> 100 ? 49 : 1) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0, size = 0, off = 0;
      for (int64_t p = 0; p < k; ++p) {
        if (way == "bytes" && p % 128 == 0) {
          const int64_t last = std::min(k, p + 128);
          off += half_a_step(&a[static_cast<size_t>(i * (k + 2) + p)], last - p) *
                 sizes(&weights[static_cast<size_t>(j * k + p)], last - p);
        }
        const double x = static_cast<double>(a[static_cast<size_t>(i * (k + 2) + p)]);
        const double term = x * weights[static_cast<size_t>(j * k + p)];
        sum += term;
        size += std::abs(term);
        if (way == "pairs") off += 0x1p-8 * std::abs(term);
      }
      const double expected =
          static_cast<double>(alpha) * sum + static_cast<double>(bias[static_cast<size_t>(j)]);
      ASSERT_NEAR(c[static_cast<size_t>(i * (n + 1) + j)], expected,
                  1e-6 * (1.0 + size) + std::abs(static_cast<double>(alpha)) * off)
          << i << " " << j;
    }
  }
}

class OnEveryIsa : public testing::Test {
 protected:
  template <class Do>
  void each(const Do& body) {
    for (const std::string& isa : isas()) {
      SCOPED_TRACE(isa);
      use_isa(isa);
      body();
    }
    use_isa("");
  }
};
using Narrow = OnEveryIsa;

TEST_F(Narrow, ProductsAreThoseOfTheWeightsAsTheyAreKept) {
  each([] {
    for (const Number type : kNarrow) {
      for (const auto& [rows, cols] :
           {std::pair<int64_t, int64_t>{13, 1}, {5, 15}, {9, 64}, {67, 35}, {11, 150}, {7, 530}}) {
        const Kept w(type, rows, cols, 3);
        for (const int64_t m : {1, 2, 3, 4, 5, 7, 19, 20, 25}) {
          expect_product(m, w, Use::transposed);
          expect_product(m, w, Use::as_it_is, -0.5f);
        }
      }
      const Kept large(type, 301, 603, 4);
      expect_product(197, large, Use::transposed, 0.5f);
      expect_product(197, large, Use::as_it_is);
    }
  });
}

// Many rows in 8 bits: where A's are whole numbers with a 127 in each part, nothing is rounded, and
// every sum is exact. Parts and columns that are whole, odd and short; rows of more than one task.
TEST_F(Narrow, WholeNumbersAreExactInBytes) {
  const auto whole = [](int64_t i, int64_t j) {
    const int64_t x = (i * 131 + j * 29) % 255 - 127;
    return static_cast<float>(j % 32 == 0 ? (i % 2 == 0 ? 127 : -127) : x);
  };
  each([&] {
    for (const auto& [m, n, k] : {std::array<int64_t, 3>{20, 1, 1},
                                  {21, 64, 64},
                                  {26, 65, 127},
                                  {30, 130, 129},
                                  {97, 48, 300},
                                  {1031, 17, 256}}) {
      SCOPED_TRACE(testing::Message() << m << "×" << n << "×" << k);
      std::vector<float> a, scale(static_cast<size_t>(n), 1.0f), plus(static_cast<size_t>(m * n));
      std::vector<int8_t> w;
      for (int64_t i = 0; i < m * k; ++i) a.push_back(whole(i / k, i % k));
      for (int64_t i = 0; i < n * k; ++i) w.push_back(static_cast<int8_t>(whole(i % k, i / k)));
      for (size_t i = 0; i < plus.size(); ++i) plus[i] = static_cast<float>(i % 7);
      auto c = plus;
      gemm({.m = m,
            .n = n,
            .k = k,
            .a = a.data(),
            .a_row = k,
            .b = w.data(),
            .b_row = 1,
            .b_col = k,
            .b_type = Number::i8,
            .b_scale = scale.data(),
            .scale_col = 1,
            .c = c.data(),
            .c_row = n,
            .plus = c.data(),
            .plus_row = n});
      for (int64_t i = 0; i < m * n; ++i) {
        const auto row = a.begin() + i / n * k;
        const double sum = std::inner_product(row, row + k, w.begin() + i % n * k, 0.0);
        ASSERT_EQ(static_cast<double>(c[static_cast<size_t>(i)]),
                  sum + static_cast<double>(plus[static_cast<size_t>(i)]))
            << i;
      }
    }
  });
}

TEST_F(Narrow, NaNOfManyRowsStaysInItsRow) {
  each([] {
    for (const Number type : kNarrow) {
      const Kept w(type, 70, 200, 8);
      for (const float odd : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
        auto a = drawn(40 * 200, 9);
        a[7 * 200 + 150] = odd;
        std::vector<float> c(40 * 70);
        gemm({.m = 40,
              .n = 70,
              .k = 200,
              .a = a.data(),
              .a_row = 200,
              .b = w.bytes.data(),
              .b_row = 1,
              .b_col = 200,
              .b_type = type,
              .b_scale = w.kept().scale,
              .scale_col = 1,
              .c = c.data(),
              .c_row = 70});
        for (int64_t i = 0; i < 40 * 70; ++i) {
          ASSERT_EQ(std::isfinite(c[static_cast<size_t>(i)]), i / 70 != 7) << i;
        }
      }
    }
  });
}

TEST_F(Narrow, RowsAreTakenByIdAndInOrder) {
  each([] {
    for (const Number type : kNarrow) {
      const Kept w(type, 11, 37, 5);
      const int64_t ids[] = {10, 0, 3, 3};
      std::vector<float> some(4 * 37), all(11 * 37);
      widen_rows(w.kept(), ids, 4, some.data());
      widen_rows(w.kept(), nullptr, 11, all.data());
      for (int64_t i = 0; i < 4; ++i) {
        for (int64_t j = 0; j < 37; ++j) {
          ASSERT_FLOAT_EQ(some[static_cast<size_t>(i * 37 + j)],
                          static_cast<float>(w.is(ids[i], j)));
        }
      }
      for (int64_t i = 0; i < 11 * 37; ++i) {
        ASSERT_FLOAT_EQ(all[static_cast<size_t>(i)], static_cast<float>(w.is(i / 37, i % 37)));
      }
    }
  });
}

// |w − s·q| ≤ s/2, and the largest of a row keeps its whole size.
TEST_F(Narrow, EightBitsAreOffByHalfAStep) {
  each([] {
    for (const int64_t cols : {1, 7, 33, 768}) {
      Kept w(Number::i8, 40, cols, 6);
      for (int64_t j = 0; j < cols; ++j) {  // nothing at all, next to nothing, as large as it gets
        w.at(w.was, 1, j) = 0.0f;
        w.at(w.was, 2, j) *= 1e-39f;
        w.at(w.was, 3, j) *= 1e37f;
      }
      w.keep();
      double lost = 0, all = 0;
      for (int64_t i = 0; i < w.rows; ++i) {
        const double s = static_cast<double>(w.scale[static_cast<size_t>(i)]);
        int most = 0;
        for (int64_t j = 0; j < cols; ++j) {
          const double was = static_cast<double>(w.at(w.was, i, j)), off = was - w.is(i, j);
          ASSERT_LE(std::abs(off), s * (0.5 + 1e-5)) << i << " " << j;
          most = std::max(most, std::abs(static_cast<int>(static_cast<int8_t>(
                                    w.bytes[static_cast<size_t>(i * cols + j)]))));
          if (i == 3) continue;  // squares of it are no floats
          lost += off * off;
          all += was * was;
        }
        ASSERT_EQ(most, i == 1 || i == 2 ? most : 127) << i;
      }
      for (int64_t j = 0; j < cols; ++j) w.at(w.was, 3, j) = 0.0f;
      w.keep();
      EXPECT_NEAR(w.cost.lost, lost, 1e-3 * lost + 1e-12 * all);  // sums in float32
      EXPECT_NEAR(w.cost.all, all, 1e-3 * all);
    }
  });
}

TEST_F(Narrow, SixteenBitsAreTheNearest) {
  const float inf = std::numeric_limits<float>::infinity();
  each([&] {
    for (const Number type : {Number::bf16, Number::f16}) {
      Kept w(type, 1, 6, 7);
      const float step = type == Number::bf16 ? 0x1p-7f : 0x1p-10f;  // of numbers from 1 on
      w.was = {1.0f + 0.5f * step, 1.0f + 1.5f * step, 1.0f + 0.51f * step, -inf, 0x1p-24f, -0.0f};
      w.keep();
      std::vector<float> is(6);
      widen_rows(w.kept(), nullptr, 1, is.data());
      EXPECT_EQ(is, (std::vector<float>{1.0f, 1.0f + 2 * step, 1.0f + step, -inf, 0x1p-24f, 0.0f}));
      EXPECT_TRUE(std::signbit(is[5]));
    }
  });
}

TEST_F(Narrow, WhatIsNotFiniteShows) {
  each([] {
    for (const Number type : kNarrow) {
      Kept w(type, 6, 20, 8);
      w.at(w.was, 2, 3) = std::nanf("");
      w.keep();
      const auto x = drawn(20, 9);
      std::vector<float> c(6);
      gemm({.m = 1,
            .n = 6,
            .k = 20,
            .a = x.data(),
            .a_row = 20,
            .b = w.bytes.data(),
            .b_row = 1,
            .b_col = 20,
            .b_type = type,
            .b_scale = w.kept().scale,
            .scale_col = 1,
            .c = c.data(),
            .c_row = 6});
      for (size_t j = 0; j < 6; ++j) EXPECT_EQ(std::isnan(c[j]), j == 2) << name_of(type);
    }
  });
}

// The likeliest row of a layer in 16 bits is that of the same layer in floats.
TEST(NarrowScreen, ChoosesByTheWeightsAsTheyAreKept) {
  for (const Number type : {Number::bf16, Number::f16}) {
    const Kept w(type, 500, 130, 12);
    std::vector<float> floats(500 * 130);
    widen_rows(w.kept(), nullptr, 500, floats.data());
    const Matrix kept{w.bytes.data(), 500, 130, 130, type}, same{floats.data(), 500, 130, 130};
    const auto screen = make_screen(kept, nullptr), other = make_screen(same, nullptr);
    for (uint64_t seed = 20; seed < 28; ++seed) {
      const auto x = drawn(130, seed);
      const auto a = choose(*screen, kept, x.data(), {}), b = choose(*other, same, x.data(), {});
      ASSERT_TRUE(a && b);
      EXPECT_EQ(a->row, b->row);
      EXPECT_NEAR(a->logit, b->logit, 1e-4);
      EXPECT_NEAR(a->log_sum, b->log_sum, 1e-3);
    }
  }
}

TEST(NarrowThreads, DoNotMatter) {
  const int before = threads();
  for (const Number type : kNarrow) {
    std::vector<std::vector<float>> results;
    for (const int t : {1, 2, 5}) {
      set_threads(t);
      const Kept w(type, 700, 515, 10);
      for (const int64_t m : {1, 40, 200}) {
        const auto a = drawn(m * 515, 11);
        std::vector<float> c(static_cast<size_t>(m * 700));
        gemm({.m = m,
              .n = 700,
              .k = 515,
              .a = a.data(),
              .a_row = 515,
              .b = w.bytes.data(),
              .b_row = 1,
              .b_col = 515,
              .b_type = type,
              .b_scale = w.kept().scale,
              .scale_col = 1,
              .c = c.data(),
              .c_row = 700});
        results.push_back(std::move(c));
      }
    }
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(results[i], results[i + 3]) << name_of(type);
      EXPECT_EQ(results[i], results[i + 6]) << name_of(type);
    }
  }
  set_threads(before);
}

}  // namespace
}  // namespace fovea::kernels
