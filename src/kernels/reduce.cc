#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce.cc"
#include <hwy/foreach_target.h>
// Highway's headers follow the line above.
#include <hwy/highway.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "core/allocator.h"
#include "core/threads.h"
#include "kernels/math-inl.h"
#include "kernels/reduce.h"
#include "kernels/strided.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels {
namespace HWY_NAMESPACE {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

HWY_INLINE V MaxOrNaN(D d, V a, V b) { return KeepNaN(d, a, KeepNaN(d, b, hn::Max(a, b))); }

// Four accumulators, 16 additions each, then double.
double SumRow(const float* x, int64_t n) {
  const D d;
  const int64_t N = static_cast<int64_t>(hn::Lanes(d));
  double total = 0.0;
  while (n > 0) {
    const int64_t m = std::min<int64_t>(n, 64 * N);
    V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    int64_t i = 0;
    for (; i + 4 * N <= m; i += 4 * N) {
      s0 = hn::Add(s0, hn::LoadU(d, x + i));
      s1 = hn::Add(s1, hn::LoadU(d, x + i + N));
      s2 = hn::Add(s2, hn::LoadU(d, x + i + 2 * N));
      s3 = hn::Add(s3, hn::LoadU(d, x + i + 3 * N));
    }
    for (; i + N <= m; i += N) s0 = hn::Add(s0, hn::LoadU(d, x + i));
    const V s = hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
    double sum = hn::GetLane(s);
    for (; i < m; ++i) sum += x[i];
    total += sum;
    x += m;
    n -= m;
  }
  return total;
}

double MaxRow(const float* x, int64_t n) {
  const D d;
  const int64_t N = static_cast<int64_t>(hn::Lanes(d));
  V m = hn::Set(d, -std::numeric_limits<float>::infinity());
  int64_t i = 0;
  for (; i + N <= n; i += N) m = MaxOrNaN(d, m, hn::LoadU(d, x + i));
  HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(m, d, lanes);
  float best = -std::numeric_limits<float>::infinity();
  const auto take = [&](float v) { best = v > best || v != v ? v : best; };
  for (int64_t l = 0; l < N && best == best; ++l) take(lanes[l]);
  for (; i < n && best == best; ++i) take(x[i]);
  return best;
}

void AddInto(float* sum, const float* x, int64_t n) {
  const D d;
  const int64_t N = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + N <= n; i += N) {
    hn::StoreU(hn::Add(hn::LoadU(d, sum + i), hn::LoadU(d, x + i)), d, sum + i);
  }
  for (; i < n; ++i) sum[i] += x[i];
}

void MaxInto(float* best, const float* x, int64_t n) {
  const D d;
  const int64_t N = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + N <= n; i += N) {
    hn::StoreU(MaxOrNaN(d, hn::LoadU(d, best + i), hn::LoadU(d, x + i)), d, best + i);
  }
  for (; i < n; ++i) best[i] = best[i] != best[i] || best[i] >= x[i] ? best[i] : x[i];
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::kernels {

HWY_EXPORT(SumRow);
HWY_EXPORT(MaxRow);
HWY_EXPORT(AddInto);
HWY_EXPORT(MaxInto);

namespace {

constexpr int64_t kTask = 1 << 15;   // elements read by one task, about
constexpr int64_t kPiece = 1 << 16;  // elements of one partial result
constexpr int64_t kRows = 256;       // rows of one partial result, column-wise
constexpr int64_t kColumns = 1024;   // columns of one task

double identity(Reduce op) {
  return op == Reduce::sum ? 0.0 : -std::numeric_limits<double>::infinity();
}

double combine(Reduce op, double a, double b) {
  if (op == Reduce::sum) return a + b;
  return a != a || a >= b ? a : b;
}

double reduce_run(Reduce op, const float* x, int64_t n, int64_t stride) {
  const auto row = op == Reduce::sum ? HWY_DYNAMIC_DISPATCH(SumRow) : HWY_DYNAMIC_DISPATCH(MaxRow);
  if (stride == 1) return row(x, n);
  double total = identity(op);
  alignas(64) float space[1024];
  for (int64_t i = 0; i < n; i += 1024) {
    const int64_t m = std::min<int64_t>(1024, n - i);
    for (int64_t j = 0; j < m; ++j) space[j] = x[(i + j) * stride];
    total = combine(op, total, row(space, m));
  }
  return total;
}

double reduce_part(Reduce op, const StridedLoop& reduced, const float* x, int64_t begin,
                   int64_t end) {
  double total = identity(op);
  reduced.for_runs(begin, end, [&](const int64_t* at, int64_t n) {
    total = combine(op, total, reduce_run(op, x + at[0], n, reduced.inner_stride(0)));
  });
  return total;
}

// Each output from its own elements, which lie best along the reduced axes.
void along_rows(Reduce op, const StridedLoop& kept, const StridedLoop& reduced, const float* x,
                float* out) {
  const int64_t K = kept.numel, R = reduced.numel;
  const int64_t pieces = (R + kPiece - 1) / kPiece;
  if (pieces == 1) {
    const int64_t rows = std::max<int64_t>(1, kTask / R);
    parallel_for((K + rows - 1) / rows, [&](int64_t task) {
      int64_t k = task * rows;
      kept.for_runs(k, std::min(K, k + rows), [&](const int64_t* at, int64_t n) {
        for (int64_t i = 0; i < n; ++i, ++k) {
          const float* from = x + at[0] + i * kept.inner_stride(0);
          out[k] = static_cast<float>(reduce_part(op, reduced, from, 0, R));
        }
      });
    });
    return;
  }
  const Buffer<double> part(K * pieces);
  parallel_for(K * pieces, [&](int64_t task) {
    const int64_t k = task / pieces, piece = task % pieces;
    kept.for_runs(k, k + 1, [&](const int64_t* at, int64_t) {
      part[task] =
          reduce_part(op, reduced, x + at[0], piece * kPiece, std::min(R, (piece + 1) * kPiece));
    });
  });
  for (int64_t k = 0; k < K; ++k) {
    double total = identity(op);
    for (int64_t p = 0; p < pieces; ++p) total = combine(op, total, part[k * pieces + p]);
    out[k] = static_cast<float>(total);
  }
}

// Rows of neighbouring outputs are accumulated together.
void along_columns(Reduce op, const StridedLoop& kept, const StridedLoop& reduced, const float* x,
                   float* out) {
  const auto into =
      op == Reduce::sum ? HWY_DYNAMIC_DISPATCH(AddInto) : HWY_DYNAMIC_DISPATCH(MaxInto);
  const int64_t K = kept.numel, R = reduced.numel;
  const int64_t pieces = (R + kRows - 1) / kRows, tiles = (K + kColumns - 1) / kColumns;
  const Buffer<float> partial(pieces > 1 ? pieces * K : 0);
  parallel_for(pieces * tiles, [&](int64_t task) {
    const int64_t piece = task / tiles, k0 = task % tiles * kColumns;
    const int64_t k1 = std::min(K, k0 + kColumns);
    float* to = pieces == 1 ? out : &partial[piece * K];
    std::fill(to + k0, to + k1, static_cast<float>(identity(op)));
    reduced.for_runs(piece * kRows, std::min(R, (piece + 1) * kRows),
                     [&](const int64_t* row, int64_t rows) {
                       for (int64_t r = 0; r < rows; ++r) {
                         const float* from = x + row[0] + r * reduced.inner_stride(0);
                         int64_t k = k0;
                         kept.for_runs(k0, k1, [&](const int64_t* at, int64_t n) {
                           into(to + k, from + at[0], n);
                           k += n;
                         });
                       }
                     });
  });
  if (pieces == 1) return;
  parallel_for(tiles, [&](int64_t tile) {
    for (int64_t k = tile * kColumns; k < std::min(K, (tile + 1) * kColumns); ++k) {
      double total = identity(op);
      for (int64_t p = 0; p < pieces; ++p) total = combine(op, total, partial[p * K + k]);
      out[k] = static_cast<float>(total);
    }
  });
}

}  // namespace

void reduce(Reduce op, Axes kept_axes, Axes reduced_axes, const float* x, float* out) {
  const StridedLoop kept(kept_axes.sizes, {kept_axes.strides});
  const StridedLoop reduced(reduced_axes.sizes, {reduced_axes.strides});
  if (kept.numel == 0) return;
  if (reduced.numel == 0) {
    std::fill_n(out, kept.numel, static_cast<float>(identity(op)));
    return;
  }
  const bool dense_columns = kept.inner_stride(0) == 1 && kept.sizes[kept.rank - 1] >= 8;
  if (dense_columns && reduced.inner_stride(0) != 1) {
    along_columns(op, kept, reduced, x, out);
  } else {
    along_rows(op, kept, reduced, x, out);
  }
}

void argmax(Axes kept, Candidates of, const float* x, int64_t* out) {
  const StridedLoop loop(kept.sizes, {kept.strides});
  const int64_t n = of.n, step = of.step;
  const int64_t rows = std::max<int64_t>(1, kTask / n);
  parallel_for((loop.numel + rows - 1) / rows, [&](int64_t task) {
    int64_t k = task * rows;
    loop.for_runs(k, std::min(loop.numel, k + rows), [&](const int64_t* at, int64_t run_length) {
      for (int64_t i = 0; i < run_length; ++i, ++k) {
        const float* row = x + at[0] + i * loop.inner_stride(0);
        int64_t best = 0;
        for (int64_t j = 1; j < n; ++j) {
          if (row[j * step] > row[best * step]) best = j;
        }
        out[k] = best;
      }
    });
  });
}

}  // namespace fovea::kernels
#endif  // HWY_ONCE
