#include "cuda/few.cuh"

#include "cuda/table.h"

// C = alpha·A·B + bias + plus for A of few rows (few.cuh). What it is bound by is how soon it ends:
// the weights come from the cache, and every launch of a step waits for the one before.
namespace fovea::cuda {
namespace {

// One product or two of as many rows, side by side.
struct Products {
  Gemm of[2];
  int tiles[2];  // of columns
};

template <class Right>
__global__ __launch_bounds__(kFewThreads,
                             1) void multiply_rows(const __grid_constant__ Products both,
                                                   int blocks) {
  extern __shared__ __align__(16) float few_shared[];
  const int rank = blockIdx.x % blocks, tile = static_cast<int>(blockIdx.x) / blocks;
  const bool second = tile >= both.tiles[0];
  const Gemm& g = both.of[second];
  const int first = (second ? tile - both.tiles[0] : tile) * kFewColumns;
  const int row = static_cast<int>(blockIdx.y) * kFewRows;
  const int rows = min(kFewRows, static_cast<int>(g.m) - row), columns = static_cast<int>(g.n);
  const FewLeft left{g.a + row * g.a_row, g.a_row, rows};
  const FewShare share{rank * kFewWarps + static_cast<int>(threadIdx.x) / kWarp,
                       kFewWarps * blocks};
  const int chunks = static_cast<int>(g.k) / kFewDeep;
  const float* const b = static_cast<const float*>(g.b);
  float sum[4][4][4] = {};
  wait_for_earlier();
  if constexpr (std::is_same_v<Right, FewByColumn>) {
    multiply_few<4, 3>(left, FewByColumn{b, g.b_row, first, columns}, chunks, share, sum);
  } else {
    multiply_few<4, 3>(left, FewByK<4>{b, g.b_col, first, 8, columns}, chunks, share, sum);
  }
  few_sums<Right>(sum, few_shared, blocks);
  constexpr int kItems = kFewRows * kFewColumns;
  for (int t = rank * (kItems / blocks) + threadIdx.x; t < (rank + 1) * (kItems / blocks);
       t += kFewThreads) {
    const int r = t / kFewColumns, c = first + t % kFewColumns;
    if (r >= rows || c >= columns) continue;
    float added = g.plus ? g.plus[(row + r) * g.plus_row + c] : 0.0f;
    if (g.bias) added += g.bias[c];
    g.c[(row + r) * g.c_row + c] =
        fmaf(g.alpha, few_sum(few_shared, r, t % kFewColumns, blocks), added);
  }
  few_done(blocks);
}

bool few_fits(const Gemm& g) {
  constexpr int64_t kMost = 1 << 20;
  if (g.m < 16 || g.m > 2 * kFewRows || g.n < kFewColumns || g.n > kMost || g.k > kMost) {
    return false;
  }
  if (g.k % kFewDeep != 0 || g.k < kFewDeep * kFewWarps || g.a_col != 1) return false;
  if (g.batch != 1 || g.b_type != Number::f32 || !aligned16(g.a, g.a_row)) return false;
  if (g.b_row == 1) return aligned16(g.b, g.b_col);
  return g.b_col == 1 && g.n % 4 == 0 && aligned16(g.b, g.b_row);
}

// g and, where there is one, another.
void multiply_them(const Gemm& g, const Gemm* other) {
  const auto tiles = [](const Gemm& x) { return parts(static_cast<int>(x.n), kFewColumns); };
  const Products both{{g, other ? *other : g}, {tiles(g), other ? tiles(*other) : 0}};
  const dim3 grid(static_cast<unsigned>(both.tiles[0] + both.tiles[1]),
                  static_cast<unsigned>(parts(static_cast<int>(g.m), kFewRows)));
  const int64_t chunks = g.k / kFewDeep;
  if (g.b_row == 1) {
    launch_few<multiply_rows<FewByK<4>>>(grid, chunks, "product of few rows", both);
  } else {
    launch_few<multiply_rows<FewByColumn>>(grid, chunks, "product of few rows", both);
  }
}

}  // namespace

bool multiply_few_rows(const Gemm& g) {
  if (!few_fits(g)) return false;
  multiply_them(g, nullptr);
  return true;
}

void gemm_two(const Gemm& a, const Gemm& b) {
  if (few_fits(a) && few_fits(b) && a.m == b.m && (a.b_row == 1) == (b.b_row == 1)) {
    return multiply_them(a, &b);
  }
  cuda::gemm(a);
  cuda::gemm(b);
}

}  // namespace fovea::cuda
