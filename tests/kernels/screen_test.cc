#include "kernels/screen.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/random.h"
#include "fovea/runtime.h"

namespace fovea::kernels {
namespace {

struct Layer {
  std::string name;
  int64_t rows, cols;
  std::vector<float> w, bias, x;
  Matrix matrix() const { return {w.data(), rows, cols, cols}; }
};

std::vector<float> numbers(int64_t n, uint64_t seed, float size) {
  const RandomKey key = random_key(seed, Purpose::tensor);
  std::vector<float> x(static_cast<size_t>(n));
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = size * static_cast<float>(2.0 * unit_open(bits32(key, i)) - 1.0);
  }
  return x;
}

Layer layer(const std::string& name, int64_t rows, int64_t cols, float size, uint64_t seed = 1) {
  return {name,
          rows,
          cols,
          numbers(rows * cols, seed, size),
          numbers(rows, seed + 1, 0.1f),
          numbers(cols, seed + 2, 1.0f)};
}

// Every row but the last hardly differs from the first.
Layer close(int64_t rows, int64_t cols, float apart) {
  Layer l = layer("close " + std::to_string(apart), rows, cols, 1.0f);
  for (int64_t v = 1; v + 1 < rows; ++v) {
    for (int64_t i = 0; i < cols; ++i) {
      float& w = l.w[static_cast<size_t>(v * cols + i)];
      w = l.w[static_cast<size_t>(i)] + apart * w;
    }
  }
  std::fill(l.bias.begin(), l.bias.end(), 0.0f);
  return l;
}

std::vector<Layer> layers() {
  std::vector<Layer> all = {layer("flat", 2000, 512, 0.04f), layer("peaked", 2000, 512, 1.0f),
                            layer("wide", 100, 5000, 0.3f), layer("odd", 777, 33, 0.5f),
                            layer("one column", 50, 1, 1.0f)};
  for (const float apart : {1e-1f, 1e-2f, 1e-3f, 1e-5f}) all.push_back(close(600, 257, apart));
  Layer uneven = layer("uneven rows", 1000, 128, 1.0f);
  for (int64_t v = 0; v < uneven.rows; ++v) {
    const float size = std::pow(10.0f, static_cast<float>(v % 7 - 5));
    for (int64_t i = 0; i < uneven.cols; ++i) uneven.w[static_cast<size_t>(v * 128 + i)] *= size;
  }
  uneven.w[500 * 128 + 3] = 40.0f;
  all.push_back(uneven);
  Layer sparse = layer("a large x among small", 1000, 64, 0.5f);
  for (float& x : sparse.x) x *= 1e-3f;
  sparse.x[9] = 8.0f;
  all.push_back(sparse);
  return all;
}

std::optional<Choice> screened(const Layer& l, const std::vector<int64_t>& never = {}) {
  const auto screen = make_screen(l.matrix(), l.bias.data());
  if (!screen) return std::nullopt;
  return choose(*screen, l.matrix(), l.x.data(), never);
}

// Every row from W itself: bounds that say nothing.
Choice full(const Layer& l, const std::vector<int64_t>& never = {}) {
  const auto screen = make_screen(l.matrix(), l.bias.data());
  std::fill_n(screen->residual.data(), l.rows, 1e9f);
  const Choice all = choose(*screen, l.matrix(), l.x.data(), never).value();
  EXPECT_EQ(all.computed, l.rows) << l.name;
  return all;
}

std::vector<double> logits(const Layer& l) {
  std::vector<double> all;
  for (int64_t v = 0; v < l.rows; ++v) {
    double sum = l.bias[static_cast<size_t>(v)];
    for (int64_t i = 0; i < l.cols; ++i) {
      sum += static_cast<double>(l.w[static_cast<size_t>(v * l.cols + i)]) *
             static_cast<double>(l.x[static_cast<size_t>(i)]);
    }
    all.push_back(sum);
  }
  return all;
}

double log_sum(const std::vector<double>& all) {
  const double largest = *std::max_element(all.begin(), all.end());
  double sum = 0.0;
  for (const double x : all) sum += std::exp(x - largest);
  return largest + std::log(sum);
}

void expect_same(const Choice& a, const Choice& b, const std::string& where) {
  EXPECT_EQ(a.row, b.row) << where;
  EXPECT_EQ(a.logit, b.logit) << where;
}

template <class F>
void on_every_isa(const F& body) {
  for (const std::string& name : isas()) {
    use_isa(name);
    body(name);
  }
  use_isa("");
}

TEST(Screen, ChoosesWhatTheWholeProductDoes) {
  on_every_isa([](const std::string& isa) {
    for (const Layer& l : layers()) {
      const std::string where = isa + ", " + l.name;
      const Choice some = screened(l).value(), all = full(l);
      expect_same(some, all, where);
      const std::vector<double> exact = logits(l);
      const double best = *std::max_element(exact.begin(), exact.end());
      EXPECT_NEAR(some.logit, best, 1e-6 * (10.0 + std::abs(best))) << where;
      EXPECT_NEAR(exact[static_cast<size_t>(some.row)], best, 1e-5) << where;
    }
  });
}

TEST(Screen, SumIsWithinAThousandth) {
  on_every_isa([](const std::string& isa) {
    for (const Layer& l : layers()) {
      const double exact = log_sum(logits(l));
      EXPECT_NEAR(screened(l)->log_sum, exact, 1e-3) << isa << ", " << l.name;
      EXPECT_NEAR(full(l).log_sum, exact, 2e-5) << isa << ", " << l.name;
    }
  });
}

TEST(Screen, RowsAndTheSumOverManyInputs) {
  Layer l = layer("many", 3000, 96, 0.0f);
  for (const float size : {0.02f, 0.2f, 0.8f, 3.0f}) {
    l.w = numbers(l.rows * l.cols, 7, size);
    const auto screen = make_screen(l.matrix(), l.bias.data());
    double squares = 0.0;
    for (uint64_t i = 0; i < 40; ++i) {
      l.x = numbers(l.cols, 100 + i, 1.0f);
      const Choice c = choose(*screen, l.matrix(), l.x.data(), {}).value();
      expect_same(c, full(l), std::to_string(size));
      const double error = c.log_sum - log_sum(logits(l));
      EXPECT_LT(std::abs(error), 1e-3) << size;
      squares += error * error;
    }
    EXPECT_LT(std::sqrt(squares / 40), 1.5e-4) << size;
  }
}

TEST(Screen, ComputesFewRows) {
  EXPECT_LE(screened(layer("flat", 2000, 512, 0.04f))->computed, 40);
  EXPECT_LE(screened(layer("peaked", 2000, 512, 1.0f))->computed, 200);
  EXPECT_LE(screened(layer("between", 4000, 384, 0.3f))->computed, 400);
}

TEST(Screen, OfEqualsTheFirst) {
  Layer l = layer("equal", 100, 40, 0.5f);
  for (const int64_t v : {17, 60, 99}) {
    std::copy_n(l.x.begin(), 40, l.w.begin() + v * 40);  // as long as x along x: the best
    l.bias[static_cast<size_t>(v)] = 0.0f;
  }
  EXPECT_EQ(screened(l)->row, 17);
  EXPECT_EQ(screened(l, {17})->row, 60);
  Layer zeros = layer("zeros", 33, 8, 0.0f);
  std::fill(zeros.bias.begin(), zeros.bias.end(), 0.25f);
  const Choice c = screened(zeros).value();
  EXPECT_EQ(c.row, 0);
  EXPECT_EQ(c.logit, 0.25f);
  EXPECT_NEAR(c.log_sum, 0.25 + std::log(33.0), 1e-6);
}

TEST(Screen, RowsNeverChosenCountInTheSum) {
  for (const Layer& l : layers()) {
    const Choice best = full(l);
    const Choice without = screened(l, {best.row}).value();
    expect_same(without, full(l, {best.row}), l.name);
    EXPECT_NE(without.row, best.row);
    EXPECT_NEAR(without.log_sum, best.log_sum, 1e-3) << l.name;
  }
  const Layer two = layer("two", 2, 4, 1.0f);
  EXPECT_EQ(screened(two, {0})->row, 1);
  EXPECT_FALSE(screened(two, {0, 1}).has_value());
}

TEST(Screen, NoBias) {
  Layer l = layer("no bias", 500, 64, 0.3f);
  const auto screen = make_screen(l.matrix(), nullptr);
  const Choice c = choose(*screen, l.matrix(), l.x.data(), {}).value();
  std::fill(l.bias.begin(), l.bias.end(), 0.0f);
  expect_same(c, full(l), l.name);
}

TEST(Screen, SameBitsAtAnyNumberOfThreads) {
  const int before = threads();
  for (const Layer& l : layers()) {
    set_threads(1);
    const Choice one = screened(l).value();
    for (const int n : {2, 3}) {
      set_threads(n);
      const Choice c = screened(l).value();
      expect_same(c, one, l.name);
      EXPECT_EQ(c.log_sum, one.log_sum) << l.name;
    }
  }
  set_threads(before);
}

// What is lost lies along x, so that bounds are reached: 10.49 steps become 10, and are more than
// 10.51 and 10.2 by turns, which become 11 and 10.
TEST(Screen, BoundsThatAreReached) {
  Layer l = layer("bounds", 40, 65, 0.1f);
  std::fill(l.x.begin(), l.x.end(), 1.0f);
  std::fill(l.bias.begin(), l.bias.end(), 0.0f);
  l.x[64] = 0.0f;
  for (int64_t v = 0; v < l.rows; ++v) {
    float* row = &l.w[static_cast<size_t>(v * 65)];
    for (int64_t i = 0; i < 64; ++i) row[i] = v == 7 ? 10.49f : i % 2 == 0 ? 10.51f : 10.2f;
    row[64] = 127.0f;
  }
  on_every_isa([&](const std::string& isa) {
    EXPECT_EQ(full(l).row, 7) << isa;
    EXPECT_EQ(screened(l)->row, 7) << isa;
  });
}

// The largest sums of products there are: no overflow.
TEST(Screen, LargestSums) {
  on_every_isa([](const std::string& isa) {
    for (const int64_t cols : {1, 2, 511, 4099}) {
      Layer l = layer("largest", 20, cols, 1.0f);
      for (int64_t v = 0; v < l.rows; ++v) {
        std::fill_n(l.w.begin() + v * cols, cols, v % 2 == 0 ? 1.0f : -1.0f);
      }
      std::fill(l.x.begin(), l.x.end(), 1.0f);
      std::fill(l.bias.begin(), l.bias.end(), 0.0f);
      const Choice up = screened(l, {0}).value();
      EXPECT_EQ(up.row, 2) << isa;
      EXPECT_EQ(up.logit, static_cast<float>(cols)) << isa;
      std::fill(l.x.begin(), l.x.end(), -1.0f);
      EXPECT_EQ(screened(l)->row, 1) << isa;
    }
  });
}

TEST(Screen, NumbersThatAreNotFinite) {
  const Layer l = layer("fine", 100, 16, 1.0f);
  for (const float bad : {INFINITY, -INFINITY, std::nanf("")}) {
    Layer w = l, x = l;
    w.w[700] = bad;
    x.x[3] = bad;
    EXPECT_FALSE(screened(w).has_value()) << bad;
    EXPECT_FALSE(screened(x).has_value()) << bad;
  }
  for (const float bad : {INFINITY, std::nanf("")}) {
    Layer b = l;
    b.bias[50] = bad;
    EXPECT_FALSE(screened(b).has_value()) << bad;
  }
  Layer banned = l;
  const int64_t best = full(l).row;
  banned.bias[static_cast<size_t>(best)] = -INFINITY;
  expect_same(screened(banned).value(), full(l, {best}), "a bias of -inf");
}

}  // namespace
}  // namespace fovea::kernels
