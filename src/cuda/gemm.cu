#include <algorithm>
#include <vector>

#include "cuda/cublas.h"
#include "cuda/loops.cuh"
#include "cuda/table.h"

// C = alpha·A·B + bias + plus, a batch of them: few rows by a kernel of our own (few.cu), others by
// cuBLASLt where it is here and the strides suit it, else by the one below.
namespace fovea::cuda {
namespace {

// A tile of 64 × 64 of C a block, 16 deep at a time, 4 × 4 a thread. Any strides.
constexpr int kTile = 64, kDeep = 16;

struct Product {
  Gemm g;
  int64_t a_step, b_step;  // from one of the batch to the next
};

__global__ __launch_bounds__(kThreads) void multiply(const __grid_constant__ Product x) {
  __shared__ float left[kDeep][kTile + 1], right[kDeep][kTile + 1];
  const Gemm& g = x.g;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const int64_t row = static_cast<int64_t>(blockIdx.y) * kTile;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kTile;
  for (int64_t batch = blockIdx.z; batch < g.batch; batch += gridDim.z) {
    const float* a = g.a + batch * x.a_step;
    const float* b = static_cast<const float*>(g.b) + batch * x.b_step;
    float sum[4][4] = {};
    for (int64_t k0 = 0; k0 < g.k; k0 += kDeep) {
      __syncthreads();
      for (int t = threadIdx.x; t < kTile * kDeep; t += kThreads) {
        // Neighbouring threads read neighbours in memory, whichever way A and B lie.
        const int ai = g.a_col == 1 ? t / kDeep : t % kTile;
        const int ak = g.a_col == 1 ? t % kDeep : t / kTile;
        const int bj = g.b_col == 1 ? t % kTile : t / kDeep;
        const int bk = g.b_col == 1 ? t / kTile : t % kDeep;
        left[ak][ai] =
            row + ai < g.m && k0 + ak < g.k ? a[(row + ai) * g.a_row + (k0 + ak) * g.a_col] : 0.0f;
        right[bk][bj] = column + bj < g.n && k0 + bk < g.k
                            ? b[(k0 + bk) * g.b_row + (column + bj) * g.b_col]
                            : 0.0f;
      }
      __syncthreads();
#pragma unroll
      for (int k = 0; k < kDeep; ++k) {
        float u[4], v[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) u[i] = left[k][ty * 4 + i], v[i] = right[k][tx + 16 * i];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
          for (int j = 0; j < 4; ++j) sum[i][j] = fmaf(u[i], v[j], sum[i][j]);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int64_t r = row + ty * 4 + i, c = column + tx + 16 * j;
        if (r >= g.m || c >= g.n) continue;
        float added = g.plus ? g.plus[r * g.plus_row + c] : 0.0f;
        if (g.bias) added += g.bias[c];
        g.c[batch * g.c_step + r * g.c_row + c] = fmaf(g.alpha, sum[i][j], added);
      }
    }
  }
}

void multiply_here(const Product& x) {
  const auto blocks = [](int64_t n) { return static_cast<unsigned>((n + kTile - 1) / kTile); };
  const dim3 grid(blocks(x.g.n), blocks(x.g.m),
                  static_cast<unsigned>(std::min<int64_t>(x.g.batch, 65535)));
  multiply<<<grid, kThreads, 0, stream()>>>(x);
  check_launch("product");
}

// A row-major matrix is a transposed column-major one: Cᵀ = Bᵀ·Aᵀ.
bool multiply_by_library(const Product& x) {
  const Gemm& g = x.g;
  if (g.k == 0 || (g.batch > 1 && g.plus) || !has_cublas()) return false;
  // A dimension of one element may have any stride.
  const auto steps = [](int64_t rows, int64_t cols, int64_t row, int64_t col, bool& across,
                        int64_t& step) {
    if (col == 1 || cols == 1) {
      across = false;
      step = rows == 1 ? cols : row;
      return step >= cols;
    }
    across = true;
    step = cols == 1 ? rows : col;
    return (row == 1 || rows == 1) && step >= rows;
  };
  bool a_across = false, b_across = false;
  int64_t lda = 0, ldb = 0;
  if (!steps(g.m, g.k, g.a_row, g.a_col, a_across, lda) ||
      !steps(g.k, g.n, g.b_row, g.b_col, b_across, ldb)) {
    return false;
  }
  const int64_t ldc = g.m == 1 ? std::max(g.n, g.c_row) : g.c_row;
  const int64_t ld_plus = g.m == 1 ? std::max(g.n, g.plus_row) : g.plus_row;
  if (ldc < g.n || (g.plus && ld_plus < g.n)) return false;
  return multiply_by_cublas({.m = g.n,
                             .n = g.m,
                             .k = g.k,
                             .a_transposed = b_across,
                             .b_transposed = a_across,
                             .a = g.b,
                             .b = g.a,
                             .c = g.plus,
                             .bias = g.bias,
                             .d = g.c,
                             .lda = ldb,
                             .ldb = lda,
                             .ldc = g.plus ? ld_plus : ldc,
                             .ldd = ldc,
                             .alpha = g.alpha,
                             .batch = g.batch,
                             .a_step = x.b_step,
                             .b_step = x.a_step,
                             .d_step = g.c_step});
}

// One after another at the same distance; false where they are not.
bool even_steps(const int64_t* at, int64_t first, int64_t n, int64_t& step) {
  step = n > 1 ? at[first + 1] - at[first] : 0;
  for (int64_t i = 2; i < n; ++i) {
    if (at[first + i] - at[first + i - 1] != step) return false;
  }
  return step >= 0;
}

void run(const Product& x) {
  if (multiply_few_rows(x.g) || multiply_many_rows(x.g) || multiply_by_library(x)) return;
  multiply_here(x);
}

// Matrices `first` … of the batch, all or in as few runs of even steps as there are.
void multiply_batch(const Gemm& g) {
  const std::vector<int64_t> none(static_cast<size_t>(g.batch), 0);
  const int64_t *a_at = g.a_at ? g.a_at : none.data(), *b_at = g.b_at ? g.b_at : none.data();
  for (int64_t first = 0; first < g.batch;) {
    int64_t n = g.batch - first, a_step = 0, b_step = 0;
    while (n > 1 && !(even_steps(a_at, first, n, a_step) && even_steps(b_at, first, n, b_step))) {
      n = (n + 1) / 2;
    }
    if (n == 1) a_step = b_step = 0;
    Gemm part = g;
    part.a += a_at[first];
    part.b = static_cast<const float*>(g.b) + b_at[first];
    part.c += first * g.c_step;
    part.batch = n;
    run({part, a_step, b_step});
    first += n;
  }
}

}  // namespace

void gemm(const Gemm& g) {
  if (g.m == 0 || g.n == 0 || g.batch == 0) return;
  if (g.b_type != kernels::Number::f32) throw Error("gemm", "weights must be float32 here");
  if (g.batch == 1 && !g.a_at && !g.b_at) return run({g, 0, 0});
  multiply_batch(g);
}

}  // namespace fovea::cuda
