#include "cuda/bf16_columns.cuh"
#include "cuda/table.h"

// Norms and losses of rows of bf16. A norm's row has a warp, which keeps it in registers where it
// is not long; a loss' row, which is, has a block. Bound by memory.
namespace fovea::cuda {
namespace {

constexpr int kWarps = kThreads / 32;
constexpr int64_t kMostHeld = 1024;  // numbers of a row in registers

// A warp's share of a row, eight columns at a time: in registers where it fits kHeld of those a
// lane, else read again.
template <int kHeld>
struct RowOf {
  const bf16* row;
  int64_t n;
  bool whole;
  float held[kHeld > 0 ? kHeld : 1][8];

  __device__ RowOf(const bf16* from, int64_t columns, bool aligned)
      : row(from), n(columns), whole(aligned) {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) load_columns(row, column(k), n, whole, held[k]);
  }
  __device__ static int64_t column(int k) { return (threadIdx.x % 32 + k * 32) * 8; }
  // f(column, eight numbers)
  template <class F>
  __device__ __forceinline__ void each(const F& f) const {
    if constexpr (kHeld > 0) {
#pragma unroll
      for (int k = 0; k < kHeld; ++k) {
        if (column(k) < n) f(column(k), held[k]);
      }
    } else {
#pragma unroll 1
      for (int64_t c = column(0); c < n; c += 256) {
        float x[8];
        load_columns(row, c, n, whole, x);
        f(c, x);
      }
    }
  }
};
// f(column, eight numbers of each) of two rows.
template <int kHeld, class F>
__device__ __forceinline__ void each_of(const RowOf<kHeld>& a, const RowOf<kHeld>& b, const F& f) {
  if constexpr (kHeld > 0) {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      if (a.column(k) < a.n) f(a.column(k), a.held[k], b.held[k]);
    }
  } else {
#pragma unroll 1
    for (int64_t c = a.column(0); c < a.n; c += 256) {
      float x[8], y[8];
      load_columns(a.row, c, a.n, a.whole, x);
      load_columns(b.row, c, a.n, a.whole, y);
      f(c, x, y);
    }
  }
}
// Eight weights from column c on; `otherwise` where there are none. One by one they would cost more
// than the row: neighbouring lanes are 32 bytes apart.
__device__ __forceinline__ void load_weights(const float* w, int64_t c, int64_t n, bool whole,
                                             float otherwise, float (&to)[8]) {
  if (w != nullptr && whole && c + 8 <= n) {
    const float4 a = __ldg(reinterpret_cast<const float4*>(w + c));
    const float4 b = __ldg(reinterpret_cast<const float4*>(w + c + 4));
    to[0] = a.x, to[1] = a.y, to[2] = a.z, to[3] = a.w;
    to[4] = b.x, to[5] = b.y, to[6] = b.z, to[7] = b.w;
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) to[i] = w != nullptr && c + i < n ? w[c + i] : otherwise;
}

template <int kHeld>
__global__ __launch_bounds__(kThreads) void norm_of(Rows rows, const bf16* x, Affine by, bf16* y,
                                                    Moments at, bool whole) {
  const float inverse = 1.0f / static_cast<float>(rows.n);
  const int64_t n = rows.n;
  for (int64_t r = blockIdx.x * kWarps + threadIdx.x / 32; r < rows.count;
       r += gridDim.x * kWarps) {
    const RowOf<kHeld> row(x + r * n, n, whole);
    float mean = 0.0f, squares = 0.0f;
    if (at.mean != nullptr) {
      float sum = 0.0f;
      row.each([&](int64_t, const float(&v)[8]) {
#pragma unroll
        for (int i = 0; i < 8; ++i) sum += v[i];
      });
      mean = warp_sum(sum) * inverse;
    }
    row.each([&](int64_t c, const float(&v)[8]) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float away = c + i < n ? v[i] - mean : 0.0f;
        squares = fmaf(away, away, squares);
      }
    });
    const float rstd = 1.0f / sqrtf(warp_sum(squares) * inverse + by.epsilon);
    if (threadIdx.x % 32 == 0) {
      if (at.mean != nullptr) at.mean[r] = mean;
      at.rstd[r] = rstd;
    }
    row.each([&](int64_t c, const float(&v)[8]) {
      float to[8], w[8], b[8];
      load_weights(by.w, c, n, whole, 1.0f, w);
      load_weights(by.b, c, n, whole, 0.0f, b);
#pragma unroll
      for (int i = 0; i < 8; ++i) to[i] = fmaf((v[i] - mean) * rstd, w[i], b[i]);
      store_columns(y + r * n, c, n, whole, to);
    });
  }
}

struct NormAt {
  const bf16 *x, *dy;
  const float *mean, *rstd, *w;
};

template <int kHeld>
__global__ __launch_bounds__(kThreads, 2) void d_norm_of(Rows rows, NormAt at, bf16* dx,
                                                         bool whole) {
  const float inverse = 1.0f / static_cast<float>(rows.n);
  const int64_t n = rows.n;
  for (int64_t r = blockIdx.x * kWarps + threadIdx.x / 32; r < rows.count;
       r += gridDim.x * kWarps) {
    const RowOf<kHeld> x(at.x + r * n, n, whole), dy(at.dy + r * n, n, whole);
    const float mean = at.mean ? at.mean[r] : 0.0f, rstd = at.rstd[r];
    float sum = 0.0f, dot = 0.0f;
    each_of(x, dy, [&](int64_t c, const float(&u)[8], const float(&d)[8]) {
      float w[8];
      load_weights(at.w, c, n, whole, 1.0f, w);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float g = d[i] * w[i];
        sum += g, dot = fmaf(g, (u[i] - mean) * rstd, dot);  // g is 0 beyond n
      }
    });
    const float a = at.mean ? warp_sum(sum) * inverse : 0.0f, b = warp_sum(dot) * inverse;
    each_of(x, dy, [&](int64_t c, const float(&u)[8], const float(&d)[8]) {
      float to[8], w[8];
      load_weights(at.w, c, n, whole, 1.0f, w);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float g = d[i] * w[i];
        to[i] = rstd * fmaf(-(u[i] - mean) * rstd, b, g - a);
      }
      store_columns(dx + r * n, c, n, whole, to);
    });
  }
}

// The largest so far and Σ 2^(x − largest), x in units of log 2.
struct Running {
  float top = -INFINITY, sum = 0.0f;
  __device__ __forceinline__ void add(const float (&x)[8]) {
    float most = top;
#pragma unroll
    for (int i = 0; i < 8; ++i) most = x[i] > most || x[i] != x[i] ? x[i] : most;
    if (most == -INFINITY) return;
    sum *= exp2_of(top - most);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += exp2_of(x[i] - most);
    top = most;
  }
};

__global__ __launch_bounds__(kThreads) void losses(Bf16Rows rows, Targets t, const bf16* x,
                                                   LogSums sums, float* loss, bool whole) {
  const float s = t.smoothing;
  const int64_t n = rows.n;
  for (int64_t r = blockIdx.x; r < rows.count; r += gridDim.x) {
    const int64_t id = t.ids[r];
    if (id == t.ignored) {
      if (threadIdx.x == 0) loss[r] = 0.0f;
      continue;
    }
    const bf16* const row = x + r * rows.row;
    Running mine;
    float plain = 0.0f;
    for (int64_t c = static_cast<int64_t>(threadIdx.x) * 8; c < n; c += kThreads * 8) {
      float v[8];
      load_columns(row, c, n, whole, v);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        plain += v[i];
        v[i] = c + i < n ? v[i] * kLog2e : -INFINITY;
      }
      mine.add(v);
    }
    const float most = block_max(mine.top);
    float top = 0.0f, log = INFINITY;
    if (most != -INFINITY) {
      const float sum =
          block_sum(mine.top == -INFINITY ? 0.0f : mine.sum * exp2_of(mine.top - most));
      top = most * kLn2, log = logf(sum);
    }
    const float all = s > 0.0f ? block_sum(plain) - static_cast<float>(n) * (top + log) : 0.0f;
    if (threadIdx.x != 0) continue;
    sums.max[r] = top, sums.log[r] = log;
    const float own = -(1.0f - s) * (__bfloat162float(row[id]) - top - log);
    loss[r] = s > 0.0f ? own - s / static_cast<float>(n) * all : own;
  }
}

__global__ __launch_bounds__(kThreads) void d_losses(Bf16Rows rows, Targets t, LossGradient d,
                                                     const bf16* x, LogSums sums, bf16* dx,
                                                     bool whole) {
  const float s = t.smoothing, part = s / static_cast<float>(rows.n);
  const int64_t n = rows.n;
  for (int64_t r = blockIdx.x; r < rows.count; r += gridDim.x) {
    const int64_t id = t.ids[r];
    const bool counts = id != t.ignored;
    const float g = counts ? d.factor * d.d_loss[r * d.step] : 0.0f;
    const float base = counts ? -(sums.max[r] + sums.log[r]) * kLog2e : 0.0f;
    for (int64_t c = static_cast<int64_t>(threadIdx.x) * 8; c < rows.row; c += kThreads * 8) {
      float v[8];
      load_columns(x + r * rows.row, c, n, whole, v);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float p = exp2_of(fmaf(v[i], kLog2e, base)) - part;
        v[i] = counts && c + i < n ? g * (c + i == id ? p - (1.0f - s) : p) : 0.0f;
      }
      store_columns(dx + r * rows.row, c, rows.row, whole, v);
    }
  }
}

bool whole(int64_t row, const void* a, const void* b) {
  return row % 8 == 0 && whole_from(a) && whole_from(b);
}
unsigned warps_for(Rows rows) {
  return static_cast<unsigned>(std::clamp<int64_t>((rows.count + kWarps - 1) / kWarps, 1, 1 << 16));
}
unsigned blocks_for(Bf16Rows rows) {
  return static_cast<unsigned>(std::clamp<int64_t>(rows.count, 1, 1 << 16));
}

}  // namespace

void norm_rows_bf16(Rows rows, const Bf16* x, const Affine& by, Bf16* y, Moments at) {
  if (rows.count == 0 || rows.n == 0) return;
  const bool weights_whole = whole_from(by.w) && whole_from(by.b);
  const auto kernel = rows.n <= kMostHeld ? norm_of<kMostHeld / 256> : norm_of<0>;
  kernel<<<warps_for(rows), kThreads, 0, stream()>>>(rows, numbers(x), by, numbers(y), at,
                                                     whole(rows.n, x, y) && weights_whole);
  check_launch("norm");
}

void d_norm_rows_bf16(Rows rows, const Bf16Normed& at, const float* w, const Bf16NormGradients& d) {
  if (rows.n == 0) return;
  if (rows.count > 0) {
    const NormAt of{numbers(at.x), numbers(at.dy), at.at.mean, at.at.rstd, w};
    const bool all = whole(rows.n, at.x, at.dy) && whole_from(d.x) && whole_from(w);
    const auto kernel = rows.n <= kMostHeld ? d_norm_of<kMostHeld / 256> : d_norm_of<0>;
    kernel<<<warps_for(rows), kThreads, 0, stream()>>>(rows, of, numbers(d.x), all);
    check_launch("norm, backward");
  }
  if (d.w == nullptr && d.b == nullptr) return;
  sum_columns<ColumnSum::normed>(
      {{rows.count, rows.n, rows.n}, numbers(at.dy), numbers(at.x), at.at.mean, at.at.rstd}, d.b,
      d.w);
}

void cross_entropy_rows_bf16(Bf16Rows rows, const Targets& t, const Bf16* x, LogSums sums,
                             float* loss) {
  if (rows.count == 0) return;
  losses<<<blocks_for(rows), kThreads, 0, stream()>>>(rows, t, numbers(x), sums, loss,
                                                      whole(rows.row, x, x));
  check_launch("cross entropy");
}

void d_cross_entropy_rows_bf16(Bf16Rows rows, const Targets& t, const LossGradient& d,
                               const Bf16* x, LogSums sums, Bf16* dx) {
  if (rows.count == 0 || rows.n == 0) return;
  d_losses<<<blocks_for(rows), kThreads, 0, stream()>>>(rows, t, d, numbers(x), sums, numbers(dx),
                                                        whole(rows.row, x, dx));
  check_launch("cross entropy, backward");
}

}  // namespace fovea::cuda
