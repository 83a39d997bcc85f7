#include "kernels/gemm.h"

#include <dnnl.h>

#include <algorithm>

#include "core/memory.h"
#include "core/threads.h"
#include "fovea/error.h"
#include "kernels/copy.h"

namespace fovea::kernels {
namespace {

// An operand as oneDNN wants it: rows or columns next to each other.
struct Operand {
  const float* data;
  char transposed;  // 'N' or 'T'
  int64_t ld;
  int64_t row, col;
};

// One stride must be 1 and the other at least as long as what it steps over.
bool fits(int64_t rows, int64_t cols, int64_t row, int64_t col) {
  return (col == 1 && row >= cols) || (row == 1 && col >= rows);
}

Operand operand(const float* data, int64_t cols, int64_t row, int64_t col) {
  if (col == 1 && row >= cols) return {data, 'N', row, row, col};
  return {data, 'T', col, row, col};
}

void check(dnnl_status_t status) {
  if (status != dnnl_success) {
    throw Error("gemm", "oneDNN refused the product with status " + std::to_string(status));
  }
}

// Blocks of C handed to one-threaded calls. Large products, out of cache, are 3 to 8 % faster in
// larger blocks; small ones are cut until there is a block for each thread. docs/kernels.md has
// what each size gave.
constexpr int64_t kSmall = 96 * 96 * 96;  // multiply-adds worth a task of their own
constexpr int64_t kRows = 128, kCols = 128, kFewestRows = 32;
constexpr int64_t kThin = 16, kThinCols = 256;  // few rows wait for memory
constexpr int64_t kLargeRows = 192, kLargeCols = 512;
constexpr int64_t kEnough = 8;  // blocks

struct Blocks {
  int64_t rows, cols;  // of C, in one call
};

int64_t count(const Gemm& g, Blocks b) {
  return g.batch * ((g.m + b.rows - 1) / b.rows) * ((g.n + b.cols - 1) / b.cols);
}

Blocks blocks_of(const Gemm& g) {
  if (g.n >= kLargeCols && g.m >= kLargeRows &&
      g.m * g.n * g.batch >= kEnough * kLargeRows * kLargeCols) {
    return {kLargeRows, kLargeCols};
  }
  Blocks b{kRows, std::min(g.n, g.m < kThin ? kThinCols : kCols)};
  const int64_t worth = kSmall / (b.cols * g.k) / 16 * 16;  // rows
  while (count(g, b) < kEnough && b.rows > std::max(kFewestRows, worth)) b.rows /= 2;
  b.rows = std::min(g.m, std::max(b.rows, worth));
  return b;
}

Buffer<float> dense(const float* x, int64_t rows, int64_t cols, int64_t row, int64_t col) {
  Buffer<float> copy(rows * cols);
  const int64_t shape[2] = {rows, cols}, from[2] = {row, col}, to[2] = {cols, 1};
  strided_copy(shape, sizeof(float), {const_cast<float*>(x), from}, {copy.data(), to});
  return copy;
}

void product(const Gemm& g, int64_t batch, int64_t i0, int64_t j0, Blocks size) {
  const int64_t m = std::min(size.rows, g.m - i0), n = std::min(size.cols, g.n - j0);
  const float* a = g.a + (g.a_at != nullptr ? g.a_at[batch] : 0);
  const float* b = g.b + (g.b_at != nullptr ? g.b_at[batch] : 0);
  const Operand x = operand(a, g.k, g.a_row, g.a_col);
  const Operand y = operand(b, g.n, g.b_row, g.b_col);
  float* c = g.c + batch * g.c_step + i0 * g.c_row + j0;
  const OneThread alone;
  check(dnnl_sgemm(x.transposed, y.transposed, m, n, g.k, g.alpha, x.data + i0 * x.row, x.ld,
                   y.data + j0 * y.col, y.ld, g.beta, c, g.c_row));
}

void scale(const Gemm& g) {
  for (int64_t s = 0; s < g.batch; ++s) {
    for (int64_t i = 0; i < g.m; ++i) {
      float* c = g.c + s * g.c_step + i * g.c_row;
      for (int64_t j = 0; j < g.n; ++j) c[j] = g.beta == 0.0f ? 0.0f : g.beta * c[j];
    }
  }
}

// The same product with operands that oneDNN takes, copied batch by batch where needed.
void with_copies(Gemm g, bool copy_a, bool copy_b) {
  for (int64_t s = 0; s < g.batch; ++s) {
    Gemm one = g;
    one.batch = 1;
    one.a_at = one.b_at = nullptr;
    one.a = g.a + (g.a_at != nullptr ? g.a_at[s] : 0);
    one.b = g.b + (g.b_at != nullptr ? g.b_at[s] : 0);
    one.c = g.c + s * g.c_step;
    Buffer<float> a, b;
    if (copy_a) {
      a = dense(one.a, g.m, g.k, g.a_row, g.a_col);
      one.a = a.data();
      one.a_row = g.k;
      one.a_col = 1;
    }
    if (copy_b) {
      b = dense(one.b, g.k, g.n, g.b_row, g.b_col);
      one.b = b.data();
      one.b_row = g.n;
      one.b_col = 1;
    }
    gemm(one);
  }
}

}  // namespace

void gemm(const Gemm& g) {
  if (g.m == 0 || g.n == 0 || g.batch == 0) return;
  if (g.k == 0) return scale(g);
  const bool copy_a = !fits(g.m, g.k, g.a_row, g.a_col);
  const bool copy_b = !fits(g.k, g.n, g.b_row, g.b_col);
  if (copy_a || copy_b) return with_copies(g, copy_a, copy_b);
  const Blocks size = blocks_of(g);
  const int64_t down = (g.m + size.rows - 1) / size.rows;
  const int64_t across = (g.n + size.cols - 1) / size.cols;
  // Few rows take as long as eight.
  const int64_t cost = std::max<int64_t>(size.rows, 8) * size.cols * g.k;
  const int64_t each = std::max<int64_t>(1, kSmall / cost);
  const int64_t calls = count(g, size);
  parallel_for((calls + each - 1) / each, [&](int64_t task) {
    for (int64_t t = task * each; t < std::min(calls, (task + 1) * each); ++t) {
      const int64_t in_batch = t % (down * across);
      product(g, t / (down * across), in_batch / across * size.rows, in_batch % across * size.cols,
              size);
    }
  });
}

}  // namespace fovea::kernels
