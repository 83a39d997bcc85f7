// A decoder's steps: one query for each batch row against keys and values that stay.
//
//   r = 1/(1 + e^{2(q+k)}), s_j = factor·Σ u·(1 − 2r) or factor·q·k_j, p = softmax(s), context = Σ
//   p·v ds/dq = 4u(r − r²), so dq = 4u Σ_j g_j(r − r²), dk_j = 4u Σ_t g_tj(r − r²), du = −2 Σ g·r
//
// A step is few numbers, so what counts is how soon it ends. The blocks of a row share its scores
// in a cluster; where there is none, each makes all of them by itself. Loads do not wait for one
// another.
#include "cuda/device.cuh"
#include "cuda/launch.cuh"
#include "cuda/loops.cuh"
#include "cuda/table.h"

namespace fovea::cuda {
namespace {

constexpr int kStepWarps = kThreads / kWarp;
constexpr int kStepKeys = 8, kStepColumns = 128;  // of a block of the sums over steps
constexpr int kQueryColumns = 64, kQueryGroups = kThreads / kQueryColumns;

struct StepView {
  const int32_t* ends;
  RowsView<const float> keys, values;
  const float* u;
  int Lk;
  explicit StepView(const StepMemory& m)
      : ends(m.ends), keys(m.keys), values(m.values), u(m.u), Lk(static_cast<int>(m.Lk)) {}
};
template <class T>
__device__ __forceinline__ T* row_in(const RowsView<T>& m, int b, int j) {
  return m.data + b * m.b + j * m.r;
}

__device__ __forceinline__ float fraction(float q, float k) {
  return reciprocal(1.0f + exp2_of((q + k) * (2.0f * kLog2e)));
}

// e[j] = factor·score of the keys that are seen; of blocks that share them, every `blocks`th eight.
__device__ __forceinline__ void step_scores(const StepView& m, int b, int end, const float* q,
                                            float factor, int blocks, float* e) {
  const int lane = threadIdx.x % kWarp, width = static_cast<int>(m.keys.width);
  const int first = blocks == 1 ? 0 : blockIdx.x * kStepWarps;
  for (int j = first + threadIdx.x / kWarp; j < end; j += kStepWarps * blocks) {
    const float* const k = row_in(m.keys, b, j);
    float sum = 0.0f;
#pragma unroll 8
    for (int d = lane; d < width; d += kWarp) {
      sum = m.u ? fmaf(m.u[d], 1.0f - 2.0f * fraction(q[d], k[d]), sum) : fmaf(q[d], k[d], sum);
    }
    sum = warp_sum(sum);
    if (lane == 0) e[j] = sum * factor;
  }
  __syncthreads();
}

// e becomes weights. With NaN or +inf among them there are none: NaN, except where −inf forbids.
__device__ __forceinline__ void step_softmax(int end, float* e) {
  float most = -infinity(), sum = 0.0f;
  for (int j = threadIdx.x; j < end; j += kThreads)
    most = e[j] > most || e[j] != e[j] ? e[j] : most;
  most = block_max(most);
  const bool defined = most > -infinity() && most < infinity();
  for (int j = threadIdx.x; j < end; j += kThreads) {
    e[j] = defined ? expf(e[j] - most) : e[j] == -infinity() ? 0.0f : not_a_number();
    sum += e[j];
  }
  sum = block_sum(sum);
  for (int j = threadIdx.x; j < end && defined; j += kThreads) e[j] /= sum;
  __syncthreads();
}

// Σ_{j<end} e_j·v_j
__device__ __forceinline__ float weighted(const float* e, const float* v, int64_t step, int end) {
  constexpr int kAtOnce = 16;
  float sum = 0.0f;
  for (int j = 0; j < end; j += kAtOnce) {
    float some[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) some[i] = v[min(j + i, end - 1) * step];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) sum = j + i < end ? fmaf(e[j + i], some[i], sum) : sum;
  }
  return sum;
}

__global__ __launch_bounds__(kThreads) void attend_step(const __grid_constant__ StepView m,
                                                        const float* q, float factor, int blocks,
                                                        float* p, float* context) {
  extern __shared__ float e[];
  wait_for_earlier();
  const int b = blockIdx.y, end = m.ends[b];
  const int d = blockIdx.x * kThreads + threadIdx.x, Dv = static_cast<int>(m.values.width);
  float* const weights = blocks == 1 ? e : e + m.Lk;
  step_scores(m, b, end, q + b * m.keys.width, factor, blocks, e);
  if (blocks > 1) {
    cluster_sync();
    for (int j = threadIdx.x; j < end; j += kThreads) {
      weights[j] = load_from(shared_address(e + j), j / kStepWarps % blocks);
    }
    __syncthreads();
  }
  step_softmax(end, weights);
  if (blockIdx.x == 0) {
    for (int j = threadIdx.x; j < m.Lk; j += kThreads) {
      p[static_cast<size_t>(b) * m.Lk + j] = j < end ? weights[j] : 0.0f;
    }
  }
  if (d < Dv) {
    context[b * m.values.width + d] =
        weighted(weights, row_in(m.values, b, 0) + d, m.values.r, end);
  }
  if (blocks > 1) cluster_sync();  // nobody leaves before the others have read its scores
}

__global__ __launch_bounds__(kThreads) void d_step_weights(const __grid_constant__ StepView m,
                                                           const float* d_context, float* dp) {
  wait_for_earlier();
  const int b = blockIdx.y, lane = threadIdx.x % kWarp, Dv = static_cast<int>(m.values.width);
  const int j = blockIdx.x * kStepWarps + threadIdx.x / kWarp;
  if (j >= m.Lk) return;
  const float *const v = row_in(m.values, b, j), *const up = d_context + b * m.values.width;
  const int width = j < m.ends[b] ? Dv : 0;
  float sum = 0.0f;
#pragma unroll 16  // loads that do not wait for one another: 4.0 µs instead of 11.5 (Dv 1024)
  for (int d = lane; d < width; d += kWarp) sum = fmaf(up[d], v[d], sum);
  sum = warp_sum(sum);
  if (lane == 0) dp[static_cast<size_t>(b) * m.Lk + j] = sum;
}

__global__ __launch_bounds__(kThreads) void d_step_query(const __grid_constant__ StepView m,
                                                         const __grid_constant__ StepGradient x) {
  extern __shared__ float g[];
  wait_for_earlier();
  const int b = blockIdx.y, end = m.ends[b], width = static_cast<int>(m.keys.width);
  const size_t at = static_cast<size_t>(b) * m.Lk;
  float mean = 0.0f;
  for (int j = threadIdx.x; j < end; j += kThreads) mean = fmaf(x.p[at + j], x.dp[at + j], mean);
  mean = block_sum(mean);
  for (int j = threadIdx.x; j < m.Lk; j += kThreads) {
    g[j] = j < end ? x.factor * x.p[at + j] * (x.dp[at + j] - mean) : 0.0f;
    if (blockIdx.x == 0) x.g[at + j] = g[j];
  }
  __syncthreads();
  // A thread has a column and every fourth key.
  const int d = blockIdx.x * kQueryColumns + threadIdx.x % kQueryColumns;
  const int group = threadIdx.x / kQueryColumns;
  float sum = 0.0f;
  if (d < width) {
    constexpr int kAtOnce = 8;
    const float q = x.q[b * m.keys.width + d];
    const float* const k = row_in(m.keys, b, 0) + d;
    for (int j = group; j < end; j += kQueryGroups * kAtOnce) {
      float some[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        some[i] = k[min(j + i * kQueryGroups, end - 1) * m.keys.r];
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (j + i * kQueryGroups >= end) continue;
        const float r = m.u ? fraction(q, some[i]) : 0.0f;
        sum = fmaf(g[j + i * kQueryGroups], m.u ? fmaf(-r, r, r) : some[i], sum);
      }
    }
  }
  __shared__ float by_group[kThreads];
  by_group[threadIdx.x] = sum;
  __syncthreads();
  if (group != 0 || d >= width) return;
  for (int i = 1; i < kQueryGroups; ++i) sum += by_group[threadIdx.x + i * kQueryColumns];
  x.dq[b * m.keys.width + d] = m.u ? 4.0f * m.u[d] * sum : sum;
}

// Where a thread of the sums over steps is: a column of kStepKeys keys.
struct StepSum {
  int b, j, keys, end, d;
  __device__ explicit StepSum(const StepView& m) {
    b = blockIdx.z, j = blockIdx.y * kStepKeys, d = blockIdx.x * kStepColumns + threadIdx.x;
    keys = min(kStepKeys, m.Lk - j), end = m.ends[b];
  }
};

__global__ __launch_bounds__(kStepColumns) void sum_step_rows(const __grid_constant__ StepView m,
                                                              const KeptStep* kept, int steps,
                                                              const RowsView<float> to) {
  const StepSum at(m);
  const int width = static_cast<int>(to.width);
  if (at.d >= width) return;
  float sum[kStepKeys] = {};
  for (int t = 0; t < steps; ++t) {
    const float x = kept[t].vectors[static_cast<size_t>(at.b) * width + at.d];
    const float* const w = kept[t].weights + static_cast<size_t>(at.b) * m.Lk + at.j;
#pragma unroll
    for (int i = 0; i < kStepKeys; ++i) sum[i] = i < at.keys ? fmaf(w[i], x, sum[i]) : 0.0f;
  }
#pragma unroll
  for (int i = 0; i < kStepKeys; ++i) {
    if (i < at.keys) row_in(to, at.b, at.j + i)[at.d] = at.j + i < at.end ? sum[i] : 0.0f;
  }
}

// gr [B][blocks of keys][width]: Σ g·r
__global__ __launch_bounds__(kStepColumns) void sum_step_keys(const __grid_constant__ StepView m,
                                                              const KeptStep* kept, int steps,
                                                              const RowsView<float> to, float* gr) {
  const StepSum at(m);
  const int width = static_cast<int>(m.keys.width);
  if (at.d >= width) return;
  float k[kStepKeys], sum[kStepKeys] = {}, total = 0.0f;
#pragma unroll
  for (int i = 0; i < kStepKeys; ++i) {
    k[i] = at.j + i < at.end ? row_in(m.keys, at.b, at.j + i)[at.d] : 0.0f;
  }
  for (int t = 0; t < steps; ++t) {
    const float q = kept[t].vectors[static_cast<size_t>(at.b) * width + at.d];
    const float* const g = kept[t].weights + static_cast<size_t>(at.b) * m.Lk + at.j;
#pragma unroll
    for (int i = 0; i < kStepKeys; ++i) {
      if (at.j + i >= at.end) continue;
      const float r = fraction(q, k[i]);
      sum[i] = fmaf(g[i], fmaf(-r, r, r), sum[i]);
      total = fmaf(g[i], r, total);
    }
  }
  gr[(static_cast<size_t>(at.b) * gridDim.y + blockIdx.y) * width + at.d] = total;
  const float u = 4.0f * m.u[at.d];
#pragma unroll
  for (int i = 0; i < kStepKeys; ++i) {
    if (to.data && i < at.keys) {
      row_in(to, at.b, at.j + i)[at.d] = at.j + i < at.end ? u * sum[i] : 0.0f;
    }
  }
}

__global__ __launch_bounds__(kThreads) void sum_step_weights(const float* gr, int parts, int width,
                                                             float* du) {
  const int d = blockIdx.x * kThreads + threadIdx.x;
  if (d >= width) return;
  double sum = 0.0;
  for (int i = 0; i < parts; ++i) sum += gr[static_cast<size_t>(i) * width + d];
  du[d] = static_cast<float>(-2.0 * sum);
}

dim3 grid_of(const StepMemory& m, int64_t width, int columns) {
  return {static_cast<unsigned>(parts(static_cast<int>(width), columns)),
          static_cast<unsigned>(m.B)};
}
dim3 sum_grid(const StepMemory& m, int64_t width) {
  return {static_cast<unsigned>(parts(static_cast<int>(width), kStepColumns)),
          static_cast<unsigned>(parts(static_cast<int>(m.Lk), kStepKeys)),
          static_cast<unsigned>(m.B)};
}

Scratch<KeptStep> on_device(std::span<const KeptStep> kept) {
  Scratch<KeptStep> there(kept.size());
  if (!kept.empty()) upload(there.data(), kept.data(), kept.size_bytes());
  return there;
}

}  // namespace

void step_forward(const StepMemory& m, const float* q, float factor, float* p, float* context) {
  const dim3 grid = grid_of(m, std::max<int64_t>(1, m.values.width), kThreads);
  const int blocks = limits().hopper && grid.x <= 8 ? static_cast<int>(grid.x) : 1;
  const size_t shared = m.Lk * sizeof(float) * (blocks > 1 ? 2 : 1);
  launch_early(attend_step, {grid, kThreads, shared, blocks}, "a step's attention", StepView(m), q,
               factor, blocks, p, context);
}

void step_d_weights(const StepMemory& m, const float* d_context, float* dp) {
  const dim3 grid(static_cast<unsigned>(parts(static_cast<int>(m.Lk), kStepWarps)),
                  static_cast<unsigned>(m.B));
  launch_early(d_step_weights, {grid, kThreads}, "the gradient of a step's weights", StepView(m),
               d_context, dp);
}

void step_d_query(const StepMemory& m, const StepGradient& x) {
  launch_early(d_step_query,
               {grid_of(m, m.keys.width, kQueryColumns), kThreads, m.Lk * sizeof(float)},
               "the gradient of a step's query", StepView(m), x);
}

void steps_d_rows(const StepMemory& m, std::span<const KeptStep> kept,
                  const RowsView<float>& d_rows) {
  const Scratch<KeptStep> there = on_device(kept);
  sum_step_rows<<<sum_grid(m, d_rows.width), kStepColumns, 0, stream()>>>(
      StepView(m), there.data(), static_cast<int>(kept.size()), d_rows);
  check_launch("gradients of rows over steps");
}

void steps_d_additive(const StepMemory& m, std::span<const KeptStep> kept,
                      const RowsView<float>& d_keys, float* du) {
  const Scratch<KeptStep> there = on_device(kept);
  const dim3 grid = sum_grid(m, m.keys.width);
  const int width = static_cast<int>(m.keys.width), all = static_cast<int>(m.B * grid.y);
  const Scratch<float> gr(static_cast<size_t>(all) * width);
  sum_step_keys<<<grid, kStepColumns, 0, stream()>>>(
      StepView(m), there.data(), static_cast<int>(kept.size()), d_keys, gr.data());
  check_launch("gradients of keys over steps");
  if (du == nullptr) return;
  sum_step_weights<<<parts(width, kThreads), kThreads, 0, stream()>>>(gr.data(), all, width, du);
  check_launch("the gradient of u over steps");
}

}  // namespace fovea::cuda
