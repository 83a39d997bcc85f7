#include "cuda/cells.cuh"
#include "cuda/few.cuh"
#include "cuda/table.h"

// A gru's step with its products in one launch, of one direction or of two that do not wait for
// each other (kernels/recurrent.h, few.cuh).
namespace fovea::cuda {
namespace {

template <class Step>
struct Both {
  Step of[2];
};

// A block has eight units, the columns of each gate; sums are r, z, and n's of x and of u apart.
constexpr int kFewUnits = 8;

__global__ __launch_bounds__(kFewThreads,
                             1) void step_gru(const __grid_constant__ Both<GruWhole> both,
                                              int blocks) {
  extern __shared__ __align__(16) float few_shared[];
  const GruWhole& g = both.of[blockIdx.z];
  const CellRows& all = g.rows;
  const int rank = blockIdx.x % blocks, unit = static_cast<int>(blockIdx.x) / blocks * kFewUnits;
  const int row = static_cast<int>(blockIdx.y) * kFewRows, H = static_cast<int>(all.hidden);
  const int rows = min(kFewRows, static_cast<int>(all.count) - row);
  FewShare share{rank * kFewWarps + static_cast<int>(threadIdx.x) / kWarp, kFewWarps * blocks};
  float sum[4][4][4] = {};
  wait_for_earlier();
  const auto multiply = [&](const RowProduct& x, auto last) {
    const FewLeft left{x.a + row * x.a_row, x.a_row, rows};
    const FewByK<3> right{x.w, x.w_row, unit, H, 3 * H};
    const int chunks = static_cast<int>(x.k) / kFewDeep;
    share.first = multiply_few<3, last>(left, right, chunks, share, sum) - chunks;
  };
  multiply(g.fed, std::integral_constant<int, 2>());
  multiply(g.state, std::integral_constant<int, 3>());
  few_sums<FewByK<4>>(sum, few_shared, blocks);

  constexpr int kItems = kFewRows * kFewUnits;
  for (int t = rank * (kItems / blocks) + threadIdx.x; t < (rank + 1) * (kItems / blocks);
       t += kFewThreads) {
    const int r = t / kFewUnits, i = unit + t % kFewUnits;
    if (r >= rows) continue;
    if (all.active != nullptr && all.active[row + r] == 0) {
      keep_state(all, g.step, row + r, i);
      continue;
    }
    const float* const x = g.step.x + static_cast<int64_t>(row + r) * 3 * H + i;
    const auto gate = [&](int which) {
      return few_sum(few_shared, r, which * kFewUnits + t % kFewUnits, blocks);
    };
    const auto bias = [&](int which) { return or_zero(g.bias, which * H + i); };
    gru_unit(all, g.step, row + r, i,
             {gate(0) + (x[0] + bias(0)), gate(1) + (x[H] + bias(1)), gate(2) + x[2 * H],
              gate(3) + bias(2)});
  }
  few_done(blocks);
}

// A block has 32 units.
__global__ __launch_bounds__(kFewThreads, 1) void step_gru_back(
    const __grid_constant__ Both<GruWholeGradient> both, int blocks) {
  extern __shared__ __align__(16) float few_shared[];
  const GruWholeGradient& g = both.of[blockIdx.z];
  const CellRows& all = g.rows;
  const int rank = blockIdx.x % blocks, unit = static_cast<int>(blockIdx.x) / blocks * kFewColumns;
  const int row = static_cast<int>(blockIdx.y) * kFewRows, H = static_cast<int>(all.hidden);
  const int rows = min(kFewRows, static_cast<int>(all.count) - row);
  const FewShare share{rank * kFewWarps + static_cast<int>(threadIdx.x) / kWarp,
                       kFewWarps * blocks};
  float sum[4][4][4] = {};
  wait_for_earlier();
  const FewLeft left{g.after + static_cast<int64_t>(row) * 3 * H, 3 * H, rows};
  multiply_few<4, 3>(left, FewByColumn{g.w, g.w_row, unit, H}, 3 * H / kFewDeep, share, sum);
  few_sums<FewByColumn>(sum, few_shared, blocks);

  constexpr int kItems = kFewRows * kFewColumns;
  for (int t = rank * (kItems / blocks) + threadIdx.x; t < (rank + 1) * (kItems / blocks);
       t += kFewThreads) {
    const int r = t / kFewColumns, i = unit + t % kFewColumns;
    if (r >= rows || i >= H) continue;
    const float dh = few_sum(few_shared, r, t % kFewColumns, blocks) +
                     or_zero(g.step.dh_next, static_cast<int64_t>(row + r) * H + i);
    d_gru_unit(all, g.step, row + r, i, all.active == nullptr || all.active[row + r] != 0, dh);
  }
  few_done(blocks);
}

bool few_fits(const RowProduct& x) {
  return x.k == 0 || (x.k % kFewDeep == 0 && x.k <= (1 << 20) && aligned16(x.a, x.a_row) &&
                      aligned16(x.w, x.w_row));
}
bool few_fits(const GruWhole& g) {
  return g.rows.hidden % kFewUnits == 0 && g.rows.hidden <= (1 << 18) && few_fits(g.fed) &&
         few_fits(g.state);
}
bool few_fits(const GruWholeGradient& g) {
  return g.after != nullptr && g.rows.hidden % kFewDeep == 0 && g.rows.hidden >= kFewColumns &&
         g.rows.hidden <= (1 << 18) && aligned16(g.after, 0) && aligned16(g.w, g.w_row);
}

// a·Wᵀ + bias + plus into dense rows.
void multiply_rows(int64_t m, int64_t n, const RowProduct& x, const float* bias, const float* plus,
                   float* c) {
  gemm({.m = m,
        .n = n,
        .k = x.k,
        .a = x.a,
        .a_row = x.a_row,
        .b = x.w,
        .b_row = 1,
        .b_col = x.w_row,
        .c = c,
        .c_row = n,
        .bias = bias,
        .plus = plus,
        .plus_row = n});
}

void one_by_one(const GruWhole& g) {
  const int64_t B = g.rows.count, n = 3 * g.rows.hidden;
  const Scratch<float> x(static_cast<size_t>(g.fed.k > 0 ? B * n : 0));
  const Scratch<float> u(static_cast<size_t>(B * n));
  GruStep step = g.step;
  if (g.fed.k > 0) {
    multiply_rows(B, n, g.fed, nullptr, step.x, x.data());
    step.x = x.data();
  }
  multiply_rows(B, n, g.state, g.bias, nullptr, u.data());
  step.u = u.data();
  cuda::gru_forward(g.rows, step);
}

void one_by_one(const GruWholeGradient& g) {
  const int64_t B = g.rows.count, H = g.rows.hidden;
  const Scratch<float> dh(static_cast<size_t>(g.after ? B * H : 0));
  GruGradient step = g.step;
  if (g.after) {
    gemm({.m = B,
          .n = H,
          .k = 3 * H,
          .a = g.after,
          .a_row = 3 * H,
          .b = g.w,
          .b_row = g.w_row,
          .c = dh.data(),
          .c_row = H,
          .plus = g.step.dh_next,
          .plus_row = H});
    step.dh_next = dh.data();
  }
  cuda::gru_backward(g.rows, step);
}

// f(steps, how many) for one or two of the same size that fit, else one_by_one().
template <class Step, class F>
void by_twos(std::span<const Step> all, const F& f) {
  for (size_t i = 0; i < all.size();) {
    const Step& a = all[i];
    if (a.rows.count * a.rows.hidden == 0 || !few_fits(a)) {
      if (a.rows.count * a.rows.hidden > 0) one_by_one(a);
      ++i;
      continue;
    }
    const bool two = i + 1 < all.size() && few_fits(all[i + 1]) &&
                     all[i + 1].rows.count == a.rows.count &&
                     all[i + 1].rows.hidden == a.rows.hidden;
    f(Both<Step>{{a, all[two ? i + 1 : i]}}, two ? 2u : 1u);
    i += two ? 2 : 1;
  }
}

dim3 grid_of(const CellRows& rows, int units, unsigned n) {
  return {static_cast<unsigned>(parts(static_cast<int>(rows.hidden), units)),
          static_cast<unsigned>(parts(static_cast<int>(rows.count), kFewRows)), n};
}

}  // namespace

void gru_whole(std::span<const GruWhole> steps) {
  by_twos(steps, [](const Both<GruWhole>& both, unsigned n) {
    const GruWhole& g = both.of[0];
    launch_few<step_gru>(grid_of(g.rows, kFewUnits, n), (g.fed.k + g.state.k) / kFewDeep,
                         "gru with its products", both);
  });
}

void gru_whole_backward(std::span<const GruWholeGradient> steps) {
  by_twos(steps, [](const Both<GruWholeGradient>& both, unsigned n) {
    const CellRows& rows = both.of[0].rows;
    launch_few<step_gru_back>(grid_of(rows, kFewColumns, n), 3 * rows.hidden / kFewDeep,
                              "gru with its products, backward", both);
  });
}

}  // namespace fovea::cuda
