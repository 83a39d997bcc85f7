#include "nn/layer.h"

#include <algorithm>

#include "core/threads.h"
#include "kernels/gemm.h"
#include "kernels/recurrent.h"
#include "nn/product.h"
#include "tensor/impl.h"
#include "tensor/tape.h"

namespace fovea::nn {
namespace {

// Numbers a cell keeps for the backward, per unit (kernels/recurrent.h).
int64_t kept_by(Cell cell) { return cell == Cell::rnn ? 0 : cell == Cell::gru ? 4 : 5; }

float* place(const Tensor& t, int64_t at = 0) { return t ? raw(t) + at : nullptr; }

// One direction. Step i of the walk is at time(i). A row keeps its state where it is not valid, and
// the sequence holds that state there until the walk is over, then 0: which is what comes before a
// row's first valid step, whichever the direction.
struct Walk {
  Cell cell;
  int64_t steps, batch, hidden;
  int64_t width, offset;  // of the sequence's rows, and this direction's place in them
  bool backwards;
  Tensor valid;     // bool [T,B] or undefined
  Tensor sequence;  // [T,B,width]
  Tensor zeros;     // [B,width], the state before the first step
  Tensor kept;      // [T,B,kept_by·H] or undefined
  Tensor c;         // [T+1,B,H], lstm alone: before step i, and after the last

  int64_t gates() const { return gates_of(cell) * hidden; }
  int64_t time(int64_t i) const { return backwards ? steps - 1 - i : i; }
  float* h(int64_t i) const {  // after step i
    return i < 0 ? raw(zeros) : raw(sequence) + time(i) * batch * width + offset;
  }
  float* c_before(int64_t i) const { return raw(c) + i * batch * hidden; }
  kernels::CellRows rows(int64_t i) const {
    return {batch, hidden, valid ? raw_bools(valid) + time(i) * batch : nullptr, width};
  }
  float* kept_at(int64_t i) const { return place(kept, i * batch * kept_by(cell) * hidden); }
};

void step(const Walk& w, int64_t i, const float* x, const float* u) {
  switch (w.cell) {
    case Cell::rnn:
      return kernels::rnn_forward(w.rows(i), {u, w.h(i - 1), w.h(i)});
    case Cell::gru:
      return kernels::gru_forward(w.rows(i), {x, u, w.h(i - 1), w.h(i), w.kept_at(i)});
    case Cell::lstm:
      return kernels::lstm_forward(
          w.rows(i), {u, w.h(i - 1), w.c_before(i), w.h(i), w.c_before(i + 1), w.kept_at(i)});
  }
}

constexpr int64_t kFew = 16;  // rows from which products with a turned weight are faster

// u = h·W_hᵀ + b_h, for rnn and lstm with gates_x; then the cell.
void forward(const Walk& w, const Tensor& gates_x, const Linear& recurrent) {
  const int64_t n = w.gates();
  const Tensor x = gates_x.detach().contiguous();
  const Tensor weight =
      w.batch < kFew ? recurrent.weight.detach().transpose(0, 1) : turned(recurrent.weight);
  const Tensor bias = recurrent.bias ? recurrent.bias.detach().contiguous() : Tensor();
  const Tensor u = Tensor::empty({w.batch, n});
  for (int64_t i = 0; i < w.steps; ++i) {
    const float* x_now = raw(x) + w.time(i) * w.batch * n;
    fill_rows(raw(u), w.batch, n, place(bias), w.cell == Cell::gru ? nullptr : x_now);
    if (i > 0) {
      kernels::gemm({.m = w.batch,
                     .n = n,
                     .k = w.hidden,
                     .a = w.h(i - 1),
                     .a_row = w.width,
                     .b = raw(weight),
                     .b_row = weight.strides()[0],
                     .b_col = weight.strides()[1],
                     .c = raw(u),
                     .c_row = n,
                     .beta = 1.0f});
    }
    step(w, i, x_now, raw(u));
  }
}

// [B,width] and, in it, this direction's columns: to or from a dense [B,H].
Tensor columns(const Tensor& t, const Walk& w) {
  return view_of(t, {w.batch, w.hidden}, {w.width, 1}, w.offset);
}

void clear_padding(const Tensor& sequence, const Tensor& valid) {
  const int64_t width = sequence.size(2);
  const uint8_t* is_valid = raw_bools(valid);
  parallel_for(valid.numel(), width, [&](int64_t r) {
    if (is_valid[r] == 0) std::fill_n(raw(sequence) + r * width, width, 0.0f);
  });
}

struct Gradients {
  Tensor sequence, h, c;  // undefined: 0
};

struct WalkGradients {
  Tensor gates_x, gates_h;  // [T,B,G·H]; one tensor but for gru
  Tensor weight, bias;
};

void step_back(const Walk& w, int64_t i, const Gradients& d, const WalkGradients& out,
               const Tensor& dh, const Tensor& dc) {
  const int64_t at = w.time(i) * w.batch * w.gates();
  const float* d_out = place(d.sequence, w.time(i) * w.batch * w.width + w.offset);
  float *dx = raw(out.gates_x) + at, *du = raw(out.gates_h) + at;
  float* dh_before = w.valid ? raw(dh) : nullptr;  // of rnn and lstm: of rows that are not valid
  switch (w.cell) {
    case Cell::rnn:
      return kernels::rnn_backward(w.rows(i), {w.h(i), d_out, raw(dh), du, dh_before});
    case Cell::gru:
      return kernels::gru_backward(w.rows(i),
                                   {w.kept_at(i), w.h(i - 1), d_out, raw(dh), dx, du, raw(dh)});
    case Cell::lstm:
      return kernels::lstm_backward(w.rows(i), {w.kept_at(i), w.c_before(i), d_out, raw(dh),
                                                raw(dc), du, dh_before, raw(dc)});
  }
}

// dW_h = Σ_i du_iᵀ·h_{i−1}: the first step's state is 0, so that both are slabs of memory.
Tensor d_weight(const Walk& w, const Tensor& du) {
  const int64_t n = w.gates(), rows = (w.steps - 1) * w.batch;
  const Tensor dw = Tensor::empty({n, w.hidden});
  kernels::gemm({.m = n,
                 .n = w.hidden,
                 .k = rows,
                 .a = raw(du) + (w.backwards ? 0 : w.batch * n),
                 .a_row = 1,
                 .a_col = n,
                 .b = raw(w.sequence) + (w.backwards ? w.batch * w.width : 0) + w.offset,
                 .b_row = w.width,
                 .c = raw(dw),
                 .c_row = w.hidden});
  return dw;
}

WalkGradients backward(const Walk& w, const Gradients& d, const Tensor& weight) {
  const int64_t n = w.gates();
  WalkGradients out;
  out.gates_h = Tensor::empty({w.steps, w.batch, n});
  out.gates_x = w.cell == Cell::gru ? Tensor::empty(out.gates_h.shape()) : out.gates_h;
  Tensor dh = Tensor::zeros({w.batch, w.hidden}), dc;
  if (d.h) dh.copy_(columns(d.h, w));
  if (w.cell == Cell::lstm) dc = Tensor::zeros({w.batch, w.hidden});
  if (d.c) dc.copy_(columns(d.c, w));
  const Tensor b = weight.contiguous();
  for (int64_t i = w.steps - 1; i >= 0; --i) {
    step_back(w, i, d, out, dh, dc);
    if (i == 0) break;
    kernels::gemm({.m = w.batch,
                   .n = w.hidden,
                   .k = n,
                   .a = raw(out.gates_h) + w.time(i) * w.batch * n,
                   .a_row = n,
                   .b = raw(b),
                   .b_row = w.hidden,
                   .c = raw(dh),
                   .c_row = w.hidden,
                   .beta = w.cell == Cell::gru || w.valid ? 1.0f : 0.0f});
  }
  out.weight = d_weight(w, out.gates_h);
  out.bias = d_product_bias(out.gates_h);
  return out;
}

struct Task {
  std::vector<Tensor> inputs;  // gates_x, W_h, b_h of each direction
  std::vector<Walk> walks;
  std::vector<Saved> weights;
};

Task prepare(std::span<const CellWeights> directions, const Tensor& x, const Tensor& valid) {
  const int64_t T = x.size(0), B = x.size(1), H = directions[0].hidden();
  const int64_t width = H * static_cast<int64_t>(directions.size());
  const Cell cell = directions[0].cell;
  const Tensor sequence = Tensor::empty({T, B, width}), zeros = Tensor::zeros({B, width});
  Task task;
  for (const CellWeights& weights : directions) {
    task.inputs.insert(task.inputs.end(),
                       {weights.input(x), weights.recurrent.weight, weights.recurrent.bias});
  }
  const bool keep = needs_grad(task.inputs);
  for (size_t d = 0; d < directions.size(); ++d) {
    Walk w{cell,   T,     B,        H,     width, static_cast<int64_t>(d) * H,
           d == 1, valid, sequence, zeros, {},    {}};
    if (keep && kept_by(cell) > 0) w.kept = Tensor::empty({T, B, kept_by(cell) * H});
    if (cell == Cell::lstm) {
      w.c = Tensor::empty({T + 1, B, H});
      std::fill_n(raw(w.c), B * H, 0.0f);
    }
    if (keep) task.weights.push_back(Saved(directions[d].recurrent.weight));
    task.walks.push_back(std::move(w));
  }
  return task;
}

LayerOutput run(const Task& task, std::span<const CellWeights> directions) {
  const Walk& first = task.walks[0];
  // The walks go into the graph of the output: were it the same tensor, neither would ever be
  // freed.
  LayerOutput out{first.sequence.detach(), {Tensor::empty(first.zeros.shape()), {}}};
  if (first.cell == Cell::lstm) out.last.c = Tensor::empty(first.zeros.shape());
  for (size_t d = 0; d < directions.size(); ++d) {
    const Walk& w = task.walks[d];
    forward(w, task.inputs[3 * d], directions[d].recurrent);
    const int64_t end = w.time(w.steps - 1);
    columns(out.last.h, w)
        .copy_(columns(view_of(w.sequence, w.zeros.shape(), {w.width, 1}, end * w.batch * w.width),
                       w));
    if (w.c) {
      columns(out.last.c, w)
          .copy_(view_of(w.c, {w.batch, w.hidden}, {w.hidden, 1}, w.steps * w.batch * w.hidden));
    }
  }
  if (first.valid) clear_padding(first.sequence, first.valid);
  return out;
}

}  // namespace

LayerOutput layer(std::span<const CellWeights> directions, const Tensor& x, const Tensor& valid) {
  Task task = prepare(directions, x, valid ? valid.contiguous() : valid);
  LayerOutput out = run(task, directions);
  if (!needs_grad(task.inputs)) return out;
  const std::vector<Tensor> outputs =
      record("recurrent", task.inputs, {out.sequence, out.last.h, out.last.c},
             [walks = task.walks, weights = task.weights,
              sequence = Saved(out.sequence)](const Grads& d_outputs) {
               sequence.get("recurrent");
               const auto dense = [](const Tensor& d) { return d ? d.contiguous() : d; };
               const Gradients d{dense(d_outputs[0]), dense(d_outputs[1]), dense(d_outputs[2])};
               Grads grads;
               for (size_t i = 0; i < walks.size(); ++i) {
                 const WalkGradients g = backward(walks[i], d, weights[i].get("recurrent"));
                 grads.insert(grads.end(), {g.gates_x, g.weight, g.bias});
               }
               return grads;
             });
  return {outputs[0], {outputs[1], outputs[2]}};
}

}  // namespace fovea::nn
