#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm.cc"
#include <hwy/foreach_target.h>
#include "kernels/scalar_size.h"
// Highway's headers follow the line above.
#include <hwy/highway.h>

#include "kernels/gemm-bytes-inl.h"
#include "kernels/gemm-inl.h"
#include "kernels/gemm-pairs-inl.h"

#if HWY_ONCE
#include <algorithm>
#include <iterator>

#include "core/threads.h"
#include "kernels/gemm.h"

namespace fovea::kernels {

HWY_EXPORT(FewRows);
HWY_EXPORT(Block);
HWY_EXPORT(Large);
HWY_EXPORT(HasBytes);
HWY_EXPORT(Bytes);
HWY_EXPORT(HasPairs);
HWY_EXPORT(Pairs);

namespace {

// Large products pack B once for all. Of others, blocks of C are handed to one-threaded calls, cut
// until there is a block for each thread. docs/kernels.md has what each size gave.
constexpr int64_t kLargeRows = 192, kLarge = int64_t{1} << 25;
constexpr int64_t kSmall = 96 * 96 * 96;  // multiply-adds worth a task of their own
constexpr int64_t kRows = 128, kCols = 128, kFewestRows = 32;
constexpr int64_t kThin = 16, kThinCols = 256;
constexpr int64_t kColsStep = 64;  // as panels are
constexpr int64_t kEnough = 8;     // blocks

struct Blocks {
  int64_t rows, cols;  // of C, in one call
};

int64_t count(const Gemm& g, Blocks b) {
  return g.batch * ((g.m + b.rows - 1) / b.rows) * ((g.n + b.cols - 1) / b.cols);
}

// Columns of few rows, which wait for memory: an even number of equal shares.
int64_t thin_cols(int64_t n) {
  const int64_t shares = ((n + kThinCols - 1) / kThinCols + kEnough - 1) / kEnough * kEnough;
  return ((n + shares - 1) / shares + kColsStep - 1) / kColsStep * kColsStep;
}

Blocks blocks_of(const Gemm& g) {
  Blocks b{kRows, std::min(g.n, g.m < kThin ? thin_cols(g.n) : kCols)};
  const int64_t worth = kSmall / (b.cols * g.k) / 16 * 16;  // rows
  while (count(g, b) < kEnough && b.rows > std::max(kFewestRows, worth)) b.rows /= 2;
  b.rows = std::min(g.m, std::max(b.rows, worth));
  return b;
}

struct Place {
  int64_t batch, i, j;
};

Gemm block_at(const Gemm& g, Place at, Blocks size) {
  Gemm one = g;
  one.m = std::min(size.rows, g.m - at.i);
  one.n = std::min(size.cols, g.n - at.j);
  one.a += (g.a_at != nullptr ? g.a_at[at.batch] : 0) + at.i * g.a_row;
  one.b = static_cast<const char*>(g.b) +
          size_of(g.b_type) * ((g.b_at != nullptr ? g.b_at[at.batch] : 0) + at.j * g.b_col);
  if (g.b_scale != nullptr) one.b_scale += at.j * g.scale_col;
  one.c += at.batch * g.c_step + at.i * g.c_row + at.j;
  if (g.bias != nullptr) one.bias += at.j;
  if (g.plus != nullptr) one.plus += at.i * g.plus_row + at.j;
  return one;
}

// Where there is nothing to sum.
void only_added(const Gemm& g) {
  for (int64_t s = 0; s < g.batch; ++s) {
    for (int64_t i = 0; i < g.m; ++i) {
      float* c = g.c + s * g.c_step + i * g.c_row;
      for (int64_t j = 0; j < g.n; ++j) {
        c[j] = (g.bias ? g.bias[j] : 0.0f) + (g.plus ? g.plus[i * g.plus_row + j] : 0.0f);
      }
    }
  }
}

void one_after_another(const Gemm& g, void (*product)(const Gemm&)) {
  for (int64_t s = 0; s < g.batch; ++s) product(block_at(g, {s, 0, 0}, {g.m, g.n}));
}

// A's rows and B's columns lie in memory, these with one scale each.
bool has_words(const Gemm& g) { return g.a_col == 1 && g.b_row == 1 && g.scale_row == 0; }

bool in_bytes(const Gemm& g) {
  return g.b_type == Number::i8 && has_words(g) && HWY_DYNAMIC_DISPATCH(HasBytes)();
}
bool in_pairs(const Gemm& g) {
  return g.b_type == Number::bf16 && has_words(g) && HWY_DYNAMIC_DISPATCH(HasPairs)();
}

void in_blocks(const Gemm& g, void (*block)(const Gemm&)) {
  const Blocks size = blocks_of(g);
  const int64_t down = (g.m + size.rows - 1) / size.rows;
  const int64_t across = (g.n + size.cols - 1) / size.cols;
  // Few rows take as long as eight.
  const int64_t cost = std::max<int64_t>(size.rows, 8) * size.cols * g.k;
  const int64_t calls = count(g, size), worth = std::max<int64_t>(1, kSmall / cost);
  const int64_t tasks = (calls + worth - 1) / worth, each = (calls + tasks - 1) / tasks;
  parallel_for((calls + each - 1) / each, [&](int64_t task) {
    for (int64_t t = task * each; t < std::min(calls, (task + 1) * each); ++t) {
      const int64_t in_batch = t % (down * across);
      const Place at{t / (down * across), in_batch / across * size.rows,
                     in_batch % across * size.cols};
      block(block_at(g, at, size));
    }
  });
}

constexpr GemmWay kWays[] = {
    {"nothing to sum", [](const Gemm& g) { return g.k == 0; }, only_added},
    {"few rows", few_rows, [](const Gemm& g) { in_blocks(g, HWY_DYNAMIC_DISPATCH(FewRows)); }},
    {"bytes", in_bytes, [](const Gemm& g) { one_after_another(g, HWY_DYNAMIC_DISPATCH(Bytes)); }},
    {"pairs", in_pairs, [](const Gemm& g) { one_after_another(g, HWY_DYNAMIC_DISPATCH(Pairs)); }},
    {"large", [](const Gemm& g) { return g.m >= kLargeRows && g.m * g.n * g.k >= kLarge; },
     [](const Gemm& g) { one_after_another(g, HWY_DYNAMIC_DISPATCH(Large)); }},
    {"blocks", [](const Gemm&) { return true; },
     [](const Gemm& g) { in_blocks(g, HWY_DYNAMIC_DISPATCH(Block)); }},
};

}  // namespace

std::span<const GemmWay> gemm_ways() { return kWays; }

const GemmWay& gemm_way(const Gemm& g) {
  return *std::find_if(std::begin(kWays), std::end(kWays),
                       [&](const GemmWay& way) { return way.can(g); });
}

void gemm(const Gemm& g) {
  if (g.m == 0 || g.n == 0 || g.batch == 0) return;
  gemm_way(g).run(g);
}

}  // namespace fovea::kernels
#endif  // HWY_ONCE
