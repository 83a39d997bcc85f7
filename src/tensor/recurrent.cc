#include "tensor/recurrent.h"

#include "kernels/gemm.h"
#include "kernels/recurrent.h"
#include "kernels/rowwise.h"
#include "tensor/impl.h"
#include "tensor/tape.h"

namespace fovea {
namespace {

// Numbers a cell keeps for the backward, per unit (kernels/recurrent.h).
int64_t kept_by(Cell cell) { return cell == Cell::rnn ? 0 : cell == Cell::gru ? 4 : 5; }

// One direction as it is run. Step i is at time(i). A row keeps its state where it is not valid,
// and the sequence holds that state there until the last step, then 0: which is what comes before a
// row's first valid step, whichever the direction.
struct DirectionRun {
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
  float* kept_at(int64_t i) const { return raw_or_null(kept, i * batch * kept_by(cell) * hidden); }
};

void step(const DirectionRun& run, int64_t i, const float* x, const float* u) {
  switch (run.cell) {
    case Cell::rnn:
      return on(run.sequence).rnn_forward(run.rows(i), {u, run.h(i - 1), run.h(i)});
    case Cell::gru:
      return on(run.sequence)
          .gru_forward(run.rows(i), {x, u, run.h(i - 1), run.h(i), run.kept_at(i)});
    case Cell::lstm:
      return on(run.sequence)
          .lstm_forward(run.rows(i), {u, run.h(i - 1), run.c_before(i), run.h(i),
                                      run.c_before(i + 1), run.kept_at(i)});
  }
}

constexpr int64_t kFew = 16;  // rows from which products with a dense transpose are faster

// u = h·W_hᵀ + b_h, for rnn and lstm with gates_x; then the cell.
void forward(const DirectionRun& run, const Direction& given) {
  const int64_t n = run.gates();
  const LinearWeights& recurrent = given.recurrent;
  const Tensor x = given.gates_x.detach().contiguous();
  const Tensor weight = run.batch < kFew ? recurrent.weight.detach().transpose(0, 1)
                                         : dense_transpose(recurrent.weight);
  const Tensor bias = recurrent.bias ? recurrent.bias.detach().contiguous() : Tensor();
  const Tensor u = empty_at(x, {run.batch, n});
  for (int64_t i = 0; i < run.steps; ++i) {
    const float* x_now = raw(x) + run.time(i) * run.batch * n;
    on(run.sequence)
        .gemm({.m = run.batch,
               .n = n,
               .k = i > 0 ? run.hidden : 0,
               .a = i > 0 ? run.h(i - 1) : nullptr,
               .a_row = run.width,
               .b = raw(weight),
               .b_row = weight.strides()[0],
               .b_col = weight.strides()[1],
               .c = raw(u),
               .c_row = n,
               .bias = raw_or_null(bias),
               .plus = run.cell == Cell::gru ? nullptr : x_now,
               .plus_row = n});
    step(run, i, x_now, raw(u));
  }
}

// The same where the device has product and cell in one: all directions at once.
void forward_whole(const std::vector<DirectionRun>& runs, std::span<const Direction> directions) {
  std::vector<Tensor> x, weights, biases;
  for (const Direction& d : directions) {
    x.push_back(d.gates_x.detach().contiguous());
    weights.push_back(d.recurrent.weight.detach().contiguous());
    biases.push_back(d.recurrent.bias ? d.recurrent.bias.detach().contiguous() : Tensor());
  }
  const DirectionRun& first = runs[0];
  std::vector<kernels::GruWhole> steps(runs.size());
  for (int64_t i = 0; i < first.steps; ++i) {
    for (size_t d = 0; d < runs.size(); ++d) {
      const DirectionRun& run = runs[d];
      steps[d] = {.rows = run.rows(i),
                  .step = {raw(x[d]) + run.time(i) * run.batch * run.gates(), nullptr, run.h(i - 1),
                           run.h(i), run.kept_at(i)},
                  .state = {.a = run.h(i - 1),
                            .a_row = run.width,
                            .k = i > 0 ? run.hidden : 0,
                            .w = raw(weights[d]),
                            .w_row = run.hidden},
                  .bias = raw_or_null(biases[d])};
    }
    on(first.sequence).gru_whole(steps);
  }
}

// [B,width] and, in it, this direction's columns: to or from a dense [B,H].
Tensor columns(const Tensor& t, const DirectionRun& run) {
  return view_of(t, {run.batch, run.hidden}, {run.width, 1}, run.offset);
}

struct Gradients {
  Tensor sequence, h, c;  // undefined: 0
};

struct DirectionGradients {
  Tensor gates_x, gates_h;  // [T,B,G·H]; one tensor but for gru
  Tensor weight, bias;
  Tensor h, c;  // [B,H], of the state between two steps
};

void step_back(const DirectionRun& run, int64_t i, const Tensor& d_sequence,
               const DirectionGradients& out) {
  const int64_t at = run.time(i) * run.batch * run.gates();
  const float* d_out = raw_or_null(d_sequence, run.time(i) * run.batch * run.width + run.offset);
  float *dx = raw(out.gates_x) + at, *du = raw(out.gates_h) + at;
  // Of rnn and lstm: of rows that are not valid.
  float* dh_before = run.valid ? raw(out.h) : nullptr;
  switch (run.cell) {
    case Cell::rnn:
      return on(run.sequence)
          .rnn_backward(run.rows(i), {run.h(i), d_out, raw(out.h), du, dh_before});
    case Cell::gru:
      return on(run.sequence)
          .gru_backward(run.rows(i),
                        {run.kept_at(i), run.h(i - 1), d_out, raw(out.h), dx, du, raw(out.h)});
    case Cell::lstm:
      return on(run.sequence)
          .lstm_backward(run.rows(i), {run.kept_at(i), run.c_before(i), d_out, raw(out.h),
                                       raw(out.c), du, dh_before, raw(out.c)});
  }
}

// dW_h = Σ_i du_iᵀ·h_{i−1}: the first step's state is 0, so that both are slabs of memory.
Tensor d_weight(const DirectionRun& run, const Tensor& du) {
  const int64_t n = run.gates(), rows = (run.steps - 1) * run.batch;
  const Tensor dw = empty_at(du, {n, run.hidden});
  on(run.sequence)
      .gemm({.m = n,
             .n = run.hidden,
             .k = rows,
             .a = raw(du) + (run.backwards ? 0 : run.batch * n),
             .a_row = 1,
             .a_col = n,
             .b = raw(run.sequence) + (run.backwards ? run.batch * run.width : 0) + run.offset,
             .b_row = run.width,
             .c = raw(dw),
             .c_row = run.hidden});
  return dw;
}

DirectionGradients begun(const DirectionRun& run, const Gradients& d) {
  DirectionGradients out;
  out.gates_h = empty_at(run.sequence, {run.steps, run.batch, run.gates()});
  out.gates_x = run.cell == Cell::gru ? empty_at(run.sequence, out.gates_h.shape()) : out.gates_h;
  out.h = zeros_at(run.sequence, {run.batch, run.hidden});
  if (d.h) out.h.copy_(columns(d.h, run));
  if (run.cell == Cell::lstm) out.c = zeros_at(run.sequence, {run.batch, run.hidden});
  if (d.c) out.c.copy_(columns(d.c, run));
  return out;
}

void backward(const DirectionRun& run, const Gradients& d, const Tensor& weight,
              const DirectionGradients& out) {
  const int64_t n = run.gates();
  const Tensor b = weight.contiguous();
  for (int64_t i = run.steps - 1; i >= 0; --i) {
    step_back(run, i, d.sequence, out);
    if (i == 0) break;
    on(run.sequence)
        .gemm({.m = run.batch,
               .n = run.hidden,
               .k = n,
               .a = raw(out.gates_h) + run.time(i) * run.batch * n,
               .a_row = n,
               .b = raw(b),
               .b_row = run.hidden,
               .c = raw(out.h),
               .c_row = run.hidden,
               .plus = run.cell == Cell::gru || run.valid ? raw(out.h) : nullptr,
               .plus_row = run.hidden});
  }
}

// The same where the device has product and cell in one: all directions at once.
void backward_whole(const std::vector<DirectionRun>& runs, const Gradients& d,
                    const std::vector<Tensor>& given, const std::vector<DirectionGradients>& out) {
  std::vector<Tensor> weights;
  for (const Tensor& w : given) weights.push_back(w.contiguous());
  const DirectionRun& first = runs[0];
  std::vector<kernels::GruWholeGradient> steps(runs.size());
  for (int64_t i = first.steps - 1; i >= 0; --i) {
    for (size_t r = 0; r < runs.size(); ++r) {
      const DirectionRun& run = runs[r];
      const auto at = [&](int64_t step) { return run.time(step) * run.batch * run.gates(); };
      const int64_t place = run.time(i) * run.batch * run.width + run.offset;
      steps[r] = {
          .rows = run.rows(i),
          .after = i + 1 < run.steps ? raw(out[r].gates_h) + at(i + 1) : nullptr,
          .w = raw(weights[r]),
          .w_row = run.hidden,
          .step = {run.kept_at(i), run.h(i - 1), raw_or_null(d.sequence, place), raw(out[r].h),
                   raw(out[r].gates_x) + at(i), raw(out[r].gates_h) + at(i), raw(out[r].h)}};
    }
    on(first.sequence).gru_whole_backward(steps);
  }
}

bool whole(const DirectionRun& run) {
  return run.cell == Cell::gru && on(run.sequence).gru_whole != nullptr;
}

std::vector<DirectionGradients> backward(const std::vector<DirectionRun>& runs, const Gradients& d,
                                         const std::vector<Tensor>& weights) {
  std::vector<DirectionGradients> all;
  if (whole(runs[0])) {
    for (const DirectionRun& run : runs) all.push_back(begun(run, d));
    backward_whole(runs, d, weights, all);
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!whole(runs[i])) {
      all.push_back(begun(runs[i], d));
      backward(runs[i], d, weights[i], all[i]);
    }
    all[i].weight = d_weight(runs[i], all[i].gates_h);
    all[i].bias = d_product_bias(all[i].gates_h);
  }
  return all;
}

struct Layer {
  std::vector<Tensor> inputs;  // gates_x, W_h, b_h of each direction
  std::vector<DirectionRun> runs;
  std::vector<Saved> weights;
};

Layer prepare(Cell cell, std::span<const Direction> directions, const Tensor& valid) {
  const Tensor& gates = directions[0].gates_x;
  const int64_t T = gates.size(0), B = gates.size(1), H = directions[0].recurrent.weight.size(1);
  const int64_t width = H * static_cast<int64_t>(directions.size());
  const Tensor sequence = empty_at(gates, {T, B, width}), zeros = zeros_at(gates, {B, width});
  Layer layer;
  for (const Direction& d : directions) {
    layer.inputs.insert(layer.inputs.end(), {d.gates_x, d.recurrent.weight, d.recurrent.bias});
  }
  const bool keep = needs_grad(layer.inputs);
  for (size_t d = 0; d < directions.size(); ++d) {
    DirectionRun run{.cell = cell,
                     .steps = T,
                     .batch = B,
                     .hidden = H,
                     .width = width,
                     .offset = static_cast<int64_t>(d) * H,
                     .backwards = d == 1,
                     .valid = valid,
                     .sequence = sequence,
                     .zeros = zeros};
    if (keep && kept_by(cell) > 0) run.kept = empty_at(gates, {T, B, kept_by(cell) * H});
    if (cell == Cell::lstm) {
      run.c = empty_at(gates, {T + 1, B, H});
      run.c.slice(0, 0, 1).fill_(0.0f);
    }
    if (keep) layer.weights.push_back(Saved(directions[d].recurrent.weight));
    layer.runs.push_back(std::move(run));
  }
  return layer;
}

Unrolled unroll(const Layer& layer, std::span<const Direction> directions) {
  const DirectionRun& first = layer.runs[0];
  // The runs go into the graph of the output: were it the same tensor, neither would ever be freed.
  Unrolled out{first.sequence.detach(), {empty_at(first.zeros, first.zeros.shape()), {}}};
  if (first.cell == Cell::lstm) out.last.c = empty_at(first.zeros, first.zeros.shape());
  if (whole(first)) forward_whole(layer.runs, directions);
  for (size_t d = 0; d < directions.size(); ++d) {
    const DirectionRun& run = layer.runs[d];
    if (!whole(first)) forward(run, directions[d]);
    const int64_t end = run.time(run.steps - 1);
    const Tensor last =
        view_of(run.sequence, run.zeros.shape(), {run.width, 1}, end * run.batch * run.width);
    columns(out.last.h, run).copy_(columns(last, run));
    if (run.c) {
      columns(out.last.c, run)
          .copy_(view_of(run.c, {run.batch, run.hidden}, {run.hidden, 1},
                         run.steps * run.batch * run.hidden));
    }
  }
  if (first.valid) {
    on(first.sequence)
        .clear_rows({first.valid.numel(), first.width}, raw_bools(first.valid),
                    raw(first.sequence));
  }
  return out;
}

}  // namespace

Unrolled recurrent_layer(Cell cell, std::span<const Direction> directions, const Tensor& valid) {
  const Layer layer = prepare(
      cell, directions, valid ? valid.contiguous().to(directions[0].gates_x.device()) : valid);
  const Unrolled out = unroll(layer, directions);
  if (!needs_grad(layer.inputs)) return out;
  const std::vector<Tensor> outputs =
      record("recurrent", layer.inputs, {out.sequence, out.last.h, out.last.c},
             [runs = layer.runs, weights = layer.weights,
              sequence = Saved(out.sequence)](const Grads& d_outputs) {
               sequence.get("recurrent");
               const auto dense = [](const Tensor& d) { return d ? d.contiguous() : d; };
               const Gradients d{dense(d_outputs[0]), dense(d_outputs[1]), dense(d_outputs[2])};
               std::vector<Tensor> now;
               for (const Saved& w : weights) now.push_back(w.get("recurrent"));
               Grads grads;
               for (const DirectionGradients& g : backward(runs, d, now)) {
                 grads.insert(grads.end(), {g.gates_x, g.weight, g.bias});
               }
               return grads;
             });
  return {outputs[0], {outputs[1], outputs[2]}};
}

}  // namespace fovea
