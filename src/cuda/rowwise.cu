#include "cuda/loops.cuh"
#include "cuda/table.h"

// Over rows of n numbers: a block a row, each row as kernels/rowwise.h says. The gradients of a
// norm's weights are sums over blocks of rows, then over those.
namespace fovea::cuda {
namespace {

__device__ __forceinline__ bool is_minus_infinity(float x) { return x == -INFINITY; }

__device__ float largest(const float* x, int64_t n) {
  float top = -INFINITY;
  for (int64_t i = threadIdx.x; i < n; i += kThreads) {
    const float v = x[i];
    if (v > top || v != v) top = v;
  }
  return block_max(top);
}

template <class F>
__device__ __forceinline__ float sum_of(int64_t n, const F& f) {
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += kThreads) sum += f(i);
  return block_sum(sum);
}
template <class F>
__device__ __forceinline__ void each(int64_t n, const F& f) {
  for (int64_t i = threadIdx.x; i < n; i += kThreads) f(i);
}

__global__ __launch_bounds__(kThreads) void clear_some(Rows rows, const uint8_t* keep, float* x) {
  for (int64_t r = blockIdx.x; r < rows.count; r += gridDim.x) {
    if (keep[r] != 0) continue;
    each(rows.n, [&](int64_t i) { x[r * rows.n + i] = 0.0f; });
  }
}

__global__ __launch_bounds__(kThreads) void softmax_of(Rows rows, const float* x, float* y) {
  for (int64_t r = blockIdx.x; r < rows.count; r += gridDim.x) {
    const float* from = x + r * rows.n;
    float* to = y + r * rows.n;
    const float top = largest(from, rows.n);
    const bool none = is_minus_infinity(top);
    const float sum = sum_of(rows.n, [&](int64_t i) { return expf(from[i] - top); });
    const float scale = 1.0f / sum;
    each(rows.n, [&](int64_t i) { to[i] = none ? 0.0f : expf(from[i] - top) * scale; });
  }
}

__global__ __launch_bounds__(kThreads) void d_softmax_of(Rows rows, const float* y, const float* dy,
                                                         float* dx) {
  for (int64_t r = blockIdx.x; r < rows.count; r += gridDim.x) {
    const float *a = y + r * rows.n, *b = dy + r * rows.n;
    const float dot = sum_of(rows.n, [&](int64_t i) { return a[i] * b[i]; });
    each(rows.n, [&](int64_t i) { dx[r * rows.n + i] = a[i] * (b[i] - dot); });
  }
}

__global__ __launch_bounds__(kThreads) void log_softmax_of(Rows rows, const float* x, float* y) {
  for (int64_t r = blockIdx.x; r < rows.count; r += gridDim.x) {
    const float* from = x + r * rows.n;
    float* to = y + r * rows.n;
    const float top = largest(from, rows.n);
    const bool none = is_minus_infinity(top);
    const float log = logf(sum_of(rows.n, [&](int64_t i) { return expf(from[i] - top); }));
    each(rows.n, [&](int64_t i) { to[i] = none ? -INFINITY : from[i] - top - log; });
  }
}

__global__ __launch_bounds__(kThreads) void d_log_softmax_of(Rows rows, const float* y,
                                                             const float* dy, float* dx) {
  for (int64_t r = blockIdx.x; r < rows.count; r += gridDim.x) {
    const float *a = y + r * rows.n, *b = dy + r * rows.n;
    const float sum = sum_of(rows.n, [&](int64_t i) { return b[i]; });
    each(rows.n, [&](int64_t i) { dx[r * rows.n + i] = fmaf(-expf(a[i]), sum, b[i]); });
  }
}

__global__ __launch_bounds__(kThreads) void norm_of(Rows rows, const float* x, Affine by, float* y,
                                                    Moments at) {
  const float inverse = 1.0f / static_cast<float>(rows.n);
  for (int64_t r = blockIdx.x; r < rows.count; r += gridDim.x) {
    const float* from = x + r * rows.n;
    const float mean =
        at.mean == nullptr ? 0.0f : inverse * sum_of(rows.n, [&](int64_t i) { return from[i]; });
    const float var = inverse * sum_of(rows.n, [&](int64_t i) {
                        const float c = from[i] - mean;
                        return c * c;
                      });
    const float rstd = 1.0f / sqrtf(var + by.epsilon);
    if (threadIdx.x == 0) {
      if (at.mean != nullptr) at.mean[r] = mean;
      at.rstd[r] = rstd;
    }
    each(rows.n, [&](int64_t i) {
      y[r * rows.n + i] =
          fmaf((from[i] - mean) * rstd, by.w ? by.w[i] : 1.0f, by.b ? by.b[i] : 0.0f);
    });
  }
}

__global__ __launch_bounds__(kThreads) void d_norm_of(Rows rows, Normed at, const float* w,
                                                      float* dx) {
  const float inverse = 1.0f / static_cast<float>(rows.n);
  for (int64_t r = blockIdx.x; r < rows.count; r += gridDim.x) {
    const float *x = at.x + r * rows.n, *dy = at.dy + r * rows.n;
    const float mean = at.at.mean ? at.at.mean[r] : 0.0f, rstd = at.at.rstd[r];
    const auto g = [&](int64_t i) { return dy[i] * (w ? w[i] : 1.0f); };
    const auto unit = [&](int64_t i) { return (x[i] - mean) * rstd; };
    const float a = at.at.mean ? inverse * sum_of(rows.n, g) : 0.0f;
    const float b = inverse * sum_of(rows.n, [&](int64_t i) { return g(i) * unit(i); });
    each(rows.n, [&](int64_t i) { dx[r * rows.n + i] = rstd * fmaf(-unit(i), b, g(i) - a); });
  }
}

// dw = Σ dy·x̂, db = Σ dy: 32 columns a block, 8 warps down its rows.
struct AffineSums {
  int64_t rows_of_block, blocks;
  double* parts;  // [blocks, 2, n]
  float *dw, *db;
};

__global__ __launch_bounds__(kThreads) void d_affine_of(Rows rows, Normed at, AffineSums to) {
  __shared__ double by_warp[2][8][33];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 32 + lane;
  const int64_t end = min(rows.count, static_cast<int64_t>(blockIdx.y + 1) * to.rows_of_block);
  double dw = 0.0, db = 0.0;
  if (i < rows.n) {
    for (int64_t r = blockIdx.y * to.rows_of_block + warp; r < end; r += 8) {
      const float dy = at.dy[r * rows.n + i], mean = at.at.mean ? at.at.mean[r] : 0.0f;
      dw += dy * ((at.x[r * rows.n + i] - mean) * at.at.rstd[r]);
      db += dy;
    }
  }
  by_warp[0][warp][lane] = dw;
  by_warp[1][warp][lane] = db;
  __syncthreads();
  if (warp > 1 || i >= rows.n) return;
  double sum = 0.0;
  for (int k = 0; k < 8; ++k) sum += by_warp[warp][k][lane];
  to.parts[(static_cast<int64_t>(blockIdx.y) * 2 + warp) * rows.n + i] = sum;
}

__global__ __launch_bounds__(kThreads) void join_affine(int64_t n, AffineSums of) {
  for (int64_t i = first_element(); i < 2 * n; i += element_step()) {
    float* to = i < n ? of.dw : of.db;
    if (to == nullptr) continue;
    double sum = 0.0;
    for (int64_t b = 0; b < of.blocks; ++b) sum += of.parts[b * 2 * n + i];
    to[i % n] = static_cast<float>(sum);
  }
}

__global__ __launch_bounds__(kThreads) void losses(Rows rows, Targets t, const float* x,
                                                   LogSums sums, float* loss) {
  const float s = t.smoothing, part = s / static_cast<float>(rows.n);
  for (int64_t r = blockIdx.x; r < rows.count; r += gridDim.x) {
    const int64_t id = t.ids[r];
    if (id == t.ignored) {
      if (threadIdx.x == 0) loss[r] = 0.0f;
      continue;
    }
    const float* row = x + r * rows.n;
    float top = largest(row, rows.n), log = INFINITY;
    if (is_minus_infinity(top)) {
      top = 0.0f;
    } else {
      log = logf(sum_of(rows.n, [&](int64_t i) { return expf(row[i] - top); }));
    }
    float all = 0.0f;
    if (s > 0.0f) all = sum_of(rows.n, [&](int64_t i) { return row[i] - top - log; });
    if (threadIdx.x != 0) continue;
    sums.max[r] = top;
    sums.log[r] = log;
    const float own = -(1.0f - s) * (row[id] - top - log);
    loss[r] = s > 0.0f ? own - part * all : own;
  }
}

__global__ __launch_bounds__(kThreads) void d_losses(Rows rows, Targets t, LossGradient d,
                                                     const float* x, LogSums sums, float* dx) {
  const float s = t.smoothing, part = s / static_cast<float>(rows.n);
  for (int64_t r = blockIdx.x; r < rows.count; r += gridDim.x) {
    const int64_t id = t.ids[r];
    float* to = dx + r * rows.n;
    if (id == t.ignored) {
      each(rows.n, [&](int64_t i) { to[i] = 0.0f; });
      continue;
    }
    const float g = d.factor * d.d_loss[r * d.step], top = sums.max[r], log = sums.log[r];
    each(rows.n, [&](int64_t i) {
      const float p = expf(x[r * rows.n + i] - top - log);
      const float v = fmaf(g, p, -(g * part));
      to[i] = i == id ? v - g * (1.0f - s) : v;
    });
  }
}

unsigned blocks_of(Rows rows) {
  return static_cast<unsigned>(std::clamp<int64_t>(rows.count, 1, 1 << 16));
}

bool nothing_in(Rows rows) { return rows.count == 0 || rows.n == 0; }

}  // namespace

void clear_rows(Rows rows, const uint8_t* keep, float* x) {
  if (nothing_in(rows)) return;
  clear_some<<<blocks_of(rows), kThreads, 0, stream()>>>(rows, keep, x);
  check_launch("clearing rows");
}

void softmax_rows(Rows rows, const float* x, float* y) {
  if (nothing_in(rows)) return;
  softmax_of<<<blocks_of(rows), kThreads, 0, stream()>>>(rows, x, y);
  check_launch("rows, softmax");
}
void d_softmax_rows(Rows rows, const float* y, const float* dy, float* dx) {
  if (nothing_in(rows)) return;
  d_softmax_of<<<blocks_of(rows), kThreads, 0, stream()>>>(rows, y, dy, dx);
  check_launch("softmax, backward");
}
void log_softmax_rows(Rows rows, const float* x, float* y) {
  if (nothing_in(rows)) return;
  log_softmax_of<<<blocks_of(rows), kThreads, 0, stream()>>>(rows, x, y);
  check_launch("log softmax");
}
void d_log_softmax_rows(Rows rows, const float* y, const float* dy, float* dx) {
  if (nothing_in(rows)) return;
  d_log_softmax_of<<<blocks_of(rows), kThreads, 0, stream()>>>(rows, y, dy, dx);
  check_launch("log softmax, backward");
}

void norm_rows(Rows rows, const float* x, const Affine& by, float* y, Moments at) {
  if (nothing_in(rows)) return;
  norm_of<<<blocks_of(rows), kThreads, 0, stream()>>>(rows, x, by, y, at);
  check_launch("norm");
}

void d_norm_rows(Rows rows, const Normed& at, const float* w, const NormGradients& d) {
  if (rows.n == 0) return;
  if (rows.count > 0) {
    d_norm_of<<<blocks_of(rows), kThreads, 0, stream()>>>(rows, at, w, d.x);
    check_launch("norm, backward");
  }
  if (d.w == nullptr && d.b == nullptr) return;
  const int64_t columns = (rows.n + 31) / 32;
  const int64_t wanted = std::max<int64_t>(1, 4 * limits().processors / columns);
  AffineSums sums{};
  sums.rows_of_block = std::max<int64_t>(64, (rows.count + wanted - 1) / wanted);
  sums.blocks = std::max<int64_t>(1, (rows.count + sums.rows_of_block - 1) / sums.rows_of_block);
  const Scratch<double> parts(static_cast<size_t>(sums.blocks * 2 * rows.n));
  sums.parts = parts.data(), sums.dw = d.w, sums.db = d.b;
  const dim3 grid(static_cast<unsigned>(columns), static_cast<unsigned>(sums.blocks));
  d_affine_of<<<grid, kThreads, 0, stream()>>>(rows, at, sums);
  check_launch("norm, the gradients of its weights");
  join_affine<<<grid_for(2 * rows.n), kThreads, 0, stream()>>>(rows.n, sums);
  check_launch("norm, the gradients of its weights");
}

void cross_entropy_rows(Rows rows, const Targets& t, const float* x, LogSums sums, float* loss) {
  if (rows.count == 0) return;
  losses<<<blocks_of(rows), kThreads, 0, stream()>>>(rows, t, x, sums, loss);
  check_launch("cross entropy");
}

void d_cross_entropy_rows(Rows rows, const Targets& t, const LossGradient& d, const float* x,
                          LogSums sums, float* dx) {
  if (nothing_in(rows)) return;
  d_losses<<<blocks_of(rows), kThreads, 0, stream()>>>(rows, t, d, x, sums, dx);
  check_launch("cross entropy, backward");
}

}  // namespace fovea::cuda
