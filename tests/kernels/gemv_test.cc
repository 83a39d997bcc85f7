#include "kernels/gemv.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fovea/runtime.h"

namespace fovea {
namespace {

std::vector<float> numbers(int64_t n, int64_t seed) {
  std::vector<float> x(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    x[static_cast<size_t>(i)] = static_cast<float>((i * 37 + seed * 101) % 61 - 30) / 16.0f;
  }
  return x;
}

// One after the other, as they lie for gemv().
struct Case {
  int64_t vectors, rows, cols;
  bool added;
};

void check(const Case& c) {
  const int64_t w_row = c.cols + 3;
  const auto w = numbers(c.rows * w_row, 1), x = numbers(c.vectors * c.cols, 2);
  const auto b = numbers(c.rows, 3), a = numbers(c.vectors * c.rows, 4);
  const auto run = [&](int n) {
    set_threads(n);
    std::vector<float> y(a.size(), -7.0f);
    kernels::gemv({c.vectors, c.rows, c.cols, w.data(), w_row, x.data(),
                   c.added ? b.data() : nullptr, c.added ? a.data() : nullptr, y.data()});
    return y;
  };
  const auto y = run(1);
  EXPECT_EQ(y, run(4));
  for (int64_t v = 0; v < c.vectors; ++v) {
    for (int64_t r = 0; r < c.rows; ++r) {
      const auto at = static_cast<size_t>(v * c.rows + r);
      double sum = c.added ? double{b[static_cast<size_t>(r)]} + double{a[at]} : 0.0;
      for (int64_t i = 0; i < c.cols; ++i) {
        sum += double{w[static_cast<size_t>(r * w_row + i)]} *
               double{x[static_cast<size_t>(v * c.cols + i)]};
      }
      ASSERT_NEAR(y[at], sum, 1e-5 * (1.0 + static_cast<double>(c.cols)))
          << c.vectors << " of " << c.rows << "×" << c.cols;
    }
  }
}

// Columns around whole vectors, rows in one task and in many; the bits do not depend on threads.
TEST(Gemv, EverySize) {
  const int before = threads();
  for (const std::string& name : isas()) {
    use_isa(name);
    for (const int64_t vectors : {1, 2, 3, 4}) {
      for (const int64_t rows : {1, 5, 1000}) {
        for (const int64_t cols : {0, 1, 15, 16, 17, 100, 384}) {
          for (const bool added : {false, true}) check({vectors, rows, cols, added});
        }
      }
    }
  }
  use_isa("");
  set_threads(before);
}

}  // namespace
}  // namespace fovea
