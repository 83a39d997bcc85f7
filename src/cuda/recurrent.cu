#include "cuda/loops.cuh"
#include "cuda/table.h"

// What a cell does after its products (kernels/recurrent.h): one thread a unit of a row.
namespace fovea::cuda {
namespace {

__device__ __forceinline__ float sigmoid_of(float x) { return 1.0f / (1.0f + expf(-x)); }
// Through tanh and σ, by their values.
__device__ __forceinline__ float through_tanh(float dy, float y) { return dy * fmaf(-y, y, 1.0f); }
__device__ __forceinline__ float through_sigmoid(float dy, float y) { return dy * fmaf(-y, y, y); }
__device__ __forceinline__ float or_zero(const float* x, int64_t at) { return x ? x[at] : 0.0f; }

// f(r, i, active) for unit i of row r.
template <class F>
__device__ __forceinline__ void each_unit(const CellRows& rows, const F& f) {
  for (int64_t t = first_element(); t < rows.count * rows.hidden; t += element_step()) {
    const int64_t r = t / rows.hidden;
    f(r, t % rows.hidden, rows.active == nullptr || rows.active[r] != 0);
  }
}

__global__ __launch_bounds__(kThreads) void rnn(CellRows rows, RnnStep s) {
  each_unit(rows, [&](int64_t r, int64_t i, bool active) {
    const int64_t at = r * rows.step + i;
    s.h_next[at] = active ? tanhf(s.u[r * rows.hidden + i]) : s.h[at];
  });
}

__global__ __launch_bounds__(kThreads) void d_rnn(CellRows rows, RnnGradient g) {
  each_unit(rows, [&](int64_t r, int64_t i, bool active) {
    const int64_t at = r * rows.hidden + i, wide = r * rows.step + i;
    const float dh = or_zero(g.dh_next, at);
    g.du[at] = active ? through_tanh(or_zero(g.d_out, wide) + dh, g.h_next[wide]) : 0.0f;
    if (g.dh) g.dh[at] = active ? 0.0f : dh;
  });
}

__global__ __launch_bounds__(kThreads) void gru(CellRows rows, GruStep s) {
  const int64_t H = rows.hidden;
  each_unit(rows, [&](int64_t r, int64_t i, bool active) {
    const int64_t wide = r * rows.step + i;
    if (!active) {
      s.h_next[wide] = s.h[wide];
      return;
    }
    const float *x = s.x + r * 3 * H + i, *u = s.u + r * 3 * H + i;
    const float reset = sigmoid_of(x[0] + u[0]), z = sigmoid_of(x[H] + u[H]), u_n = u[2 * H];
    const float n = tanhf(fmaf(reset, u_n, x[2 * H]));
    s.h_next[wide] = fmaf(z, s.h[wide], (1.0f - z) * n);
    if (!s.kept) return;
    float* kept = s.kept + r * 4 * H + i;
    kept[0] = reset, kept[H] = z, kept[2 * H] = n, kept[3 * H] = u_n;
  });
}

__global__ __launch_bounds__(kThreads) void d_gru(CellRows rows, GruGradient g) {
  const int64_t H = rows.hidden;
  each_unit(rows, [&](int64_t r, int64_t i, bool active) {
    const int64_t at = r * H + i, wide = r * rows.step + i;
    float *dx = g.dx + r * 3 * H + i, *du = g.du + r * 3 * H + i;
    const float dh_before = or_zero(g.dh_next, at);
    if (!active) {
      dx[0] = dx[H] = dx[2 * H] = du[0] = du[H] = du[2 * H] = 0.0f;
      g.dh[at] = dh_before;
      return;
    }
    const float* kept = g.kept + r * 4 * H + i;
    const float reset = kept[0], z = kept[H], n = kept[2 * H], u_n = kept[3 * H];
    const float dh = or_zero(g.d_out, wide) + dh_before;
    const float dn = through_tanh(dh * (1.0f - z), n);
    const float dz = through_sigmoid(dh * (g.h[wide] - n), z);
    const float dr = through_sigmoid(dn * u_n, reset);
    dx[0] = dr, dx[H] = dz, dx[2 * H] = dn;
    du[0] = dr, du[H] = dz, du[2 * H] = dn * reset;
    g.dh[at] = dh * z;
  });
}

__global__ __launch_bounds__(kThreads) void lstm(CellRows rows, LstmStep s) {
  const int64_t H = rows.hidden;
  each_unit(rows, [&](int64_t r, int64_t i, bool active) {
    const int64_t at = r * H + i, wide = r * rows.step + i;
    if (!active) {
      s.h_next[wide] = s.h[wide];
      s.c_next[at] = s.c[at];
      return;
    }
    const float* u = s.u + r * 4 * H + i;
    const float in = sigmoid_of(u[0]), f = sigmoid_of(u[H]), g = tanhf(u[2 * H]);
    const float o = sigmoid_of(u[3 * H]);
    const float c = fmaf(f, s.c[at], in * g), t = tanhf(c);
    s.c_next[at] = c;
    s.h_next[wide] = o * t;
    if (!s.kept) return;
    float* kept = s.kept + r * 5 * H + i;
    kept[0] = in, kept[H] = f, kept[2 * H] = g, kept[3 * H] = o, kept[4 * H] = t;
  });
}

__global__ __launch_bounds__(kThreads) void d_lstm(CellRows rows, LstmGradient g) {
  const int64_t H = rows.hidden;
  each_unit(rows, [&](int64_t r, int64_t i, bool active) {
    const int64_t at = r * H + i, wide = r * rows.step + i;
    float* du = g.du + r * 4 * H + i;
    const float dh_before = or_zero(g.dh_next, at), dc_before = or_zero(g.dc_next, at);
    if (!active) {
      du[0] = du[H] = du[2 * H] = du[3 * H] = 0.0f;
      if (g.dh) g.dh[at] = dh_before;
      g.dc[at] = dc_before;
      return;
    }
    const float* kept = g.kept + r * 5 * H + i;
    const float in = kept[0], f = kept[H], n = kept[2 * H], o = kept[3 * H], t = kept[4 * H];
    const float dh = or_zero(g.d_out, wide) + dh_before;
    const float dc = dc_before + through_tanh(dh * o, t);
    du[0] = through_sigmoid(dc * n, in);
    du[H] = through_sigmoid(dc * g.c[at], f);
    du[2 * H] = through_tanh(dc * in, n);
    du[3 * H] = through_sigmoid(dh * t, o);
    if (g.dh) g.dh[at] = 0.0f;
    g.dc[at] = dc * f;
  });
}

template <class Step>
void launch(void (*kernel)(CellRows, Step), const CellRows& rows, const Step& step,
            const char* operation) {
  const int64_t n = rows.count * rows.hidden;
  if (n == 0) return;
  kernel<<<grid_for(n), kThreads, 0, stream()>>>(rows, step);
  check_launch(operation);
}

}  // namespace

void rnn_forward(const CellRows& rows, const RnnStep& s) { launch(rnn, rows, s, "rnn"); }
void rnn_backward(const CellRows& rows, const RnnGradient& g) {
  launch(d_rnn, rows, g, "rnn, backward");
}
void gru_forward(const CellRows& rows, const GruStep& s) { launch(gru, rows, s, "gru"); }
void gru_backward(const CellRows& rows, const GruGradient& g) {
  launch(d_gru, rows, g, "gru, backward");
}
void lstm_forward(const CellRows& rows, const LstmStep& s) { launch(lstm, rows, s, "lstm"); }
void lstm_backward(const CellRows& rows, const LstmGradient& g) {
  launch(d_lstm, rows, g, "lstm, backward");
}

}  // namespace fovea::cuda
