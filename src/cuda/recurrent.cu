#include "cuda/cells.cuh"
#include "cuda/launch.cuh"
#include "cuda/loops.cuh"
#include "cuda/table.h"

// What a cell does after its products (kernels/recurrent.h): one thread a unit of a row.
namespace fovea::cuda {
namespace {

// f(r, i, active) for unit i of row r.
template <class F>
__device__ __forceinline__ void each_unit(const CellRows& rows, const F& f) {
  wait_for_earlier();
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
    const float *x = s.x + r * 3 * H + i, *u = s.u + r * 3 * H + i;
    if (!active) return keep_state(rows, s, r, i);
    gru_unit(rows, s, r, i, {x[0] + u[0], x[H] + u[H], x[2 * H], u[2 * H]});
  });
}

__global__ __launch_bounds__(kThreads) void d_gru(CellRows rows, GruGradient g) {
  each_unit(rows, [&](int64_t r, int64_t i, bool active) {
    d_gru_unit(rows, g, r, i, active, or_zero(g.dh_next, r * rows.hidden + i));
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
  launch_early(kernel, {grid_for(n), kThreads}, operation, rows, step);
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
