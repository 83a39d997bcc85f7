#include "kernels/recurrent.h"
#include "tensor/impl.h"
#include "tensor/recurrent.h"
#include "tensor/tape.h"

namespace fovea {
namespace {

Tensor dense(const Tensor& t) { return t.detach().contiguous(); }

Tensor rnn_step(const Tensor& gates, const Tensor& h, const Tensor& active) {
  const Tensor u = dense(gates), h0 = dense(h), y = empty_at(h, h.shape());
  on(y).rnn_forward(cell_rows(h, active), {raw(u), raw(h0), raw(y)});
  const bool want_dh = active.defined();  // else h is in the gates alone
  return record(
      "rnn", {gates, want_dh ? h : Tensor()}, y, [ky = Saved(y), active, want_dh](const Tensor& d) {
        const Tensor dy = d.contiguous(), du = empty_at(d, d.shape());
        const Tensor dh = want_dh ? empty_at(d, d.shape()) : Tensor();
        on(dy).rnn_backward(cell_rows(dy, active),
                            {raw(ky.get("rnn")), nullptr, raw(dy), raw(du), raw_or_null(dh)});
        return Grads{du, dh};
      });
}

Tensor gru_step(const Tensor& gates_x, const Tensor& gates_h, const Tensor& h,
                const Tensor& active) {
  const Tensor x = dense(gates_x), u = dense(gates_h), h0 = dense(h), y = empty_at(h, h.shape());
  const std::vector<Tensor> inputs{gates_x, gates_h, h};
  const bool keep = needs_grad(inputs);
  const Tensor kept = keep ? empty_at(h, {h.size(0), 4 * h.size(1)}) : Tensor();
  on(y).gru_forward(cell_rows(h, active), {raw(x), raw(u), raw(h0), raw(y), raw_or_null(kept)});
  if (!keep) return y;
  return record("gru", inputs, y, [kept, kh = Saved(h0), active](const Tensor& d) {
    const Tensor dy = d.contiguous(), dh = empty_at(d, d.shape());
    const Shape gates{d.size(0), 3 * d.size(1)};
    const Tensor dx = empty_at(d, gates), du = empty_at(d, gates);
    on(dy).gru_backward(cell_rows(dy, active), {raw(kept), raw(kh.get("gru")), nullptr, raw(dy),
                                                raw(dx), raw(du), raw(dh)});
    return Grads{dx, du, dh};
  });
}

CellState lstm_step(const Tensor& gates, const CellState& before, const Tensor& active) {
  const Tensor u = dense(gates), h0 = dense(before.h), c0 = dense(before.c);
  const CellState after{empty_at(h0, h0.shape()), empty_at(h0, h0.shape())};
  const std::vector<Tensor> inputs{gates, active ? before.h : Tensor(), before.c};
  const bool keep = needs_grad(inputs), want_dh = active.defined();
  const Shape shape = before.h.shape();
  const Tensor kept = keep ? empty_at(h0, {shape[0], 5 * shape[1]}) : Tensor();
  on(u).lstm_forward(cell_rows(h0, active),
                     {raw(u), raw(h0), raw(c0), raw(after.h), raw(after.c), raw_or_null(kept)});
  if (!keep) return after;
  const std::vector<Tensor> out = record(
      "lstm", inputs, {after.h, after.c},
      [kept, kc = Saved(c0), active, want_dh, shape](const Grads& d) {
        const Tensor dh_next = d[0] ? d[0].contiguous() : Tensor();
        const Tensor dc_next = d[1] ? d[1].contiguous() : Tensor();
        const Tensor du = empty_at(kept, {shape[0], 4 * shape[1]}), dc = empty_at(kept, shape);
        const Tensor dh = want_dh ? empty_at(kept, shape) : Tensor();
        on(du).lstm_backward(cell_rows(dc, active),
                             {raw(kept), raw(kc.get("lstm")), nullptr, raw_or_null(dh_next),
                              raw_or_null(dc_next), raw(du), raw_or_null(dh), raw(dc)});
        return Grads{du, dh, dc};
      });
  return {out[0], out[1]};
}

void expect_step(const char* call, const char* name, const Tensor& t, const Shape& expected) {
  expect_dtype(call, name, t, DType::f32);
  if (t.shape() != expected) {
    throw Error(call, std::string(name) + " is " + to_string(t.shape()) + ", expected " +
                          to_string(expected));
  }
}

struct CellEntry {
  const char* name;
  int64_t gates;
};
constexpr CellEntry kCells[] = {{"rnn", 1}, {"gru", 3}, {"lstm", 4}};  // by Cell

}  // namespace

kernels::CellRows cell_rows(const Tensor& h, const Tensor& active) {
  return {h.size(0), h.size(1), active ? raw_bools(active) : nullptr, h.size(1)};
}

const char* name_of(Cell cell) { return kCells[static_cast<int>(cell)].name; }
int64_t gates_of(Cell cell) { return kCells[static_cast<int>(cell)].gates; }

CellState cell_step(Cell cell, const Tensor& gates_x, const Tensor& gates_h,
                    const CellState& before, const Tensor& active) {
  const char* call = name_of(cell);
  const Shape gates{before.h.size(0), gates_of(cell) * before.h.size(1)};
  expect_step(call, "gates_h", gates_h, gates);
  if (active) {
    expect_dtype(call, "active", active, DType::boolean);
    if (active.shape() != Shape{gates[0]}) {
      throw Error(call,
                  "active is " + to_string(active.shape()) + ", expected " + to_string({gates[0]}));
    }
  }
  expect_together(call, {&gates_h, &gates_x, &before.h, &before.c});
  const Tensor rows = active ? active.contiguous().to(before.h.device()) : active;
  switch (cell) {
    case Cell::rnn:
      return {rnn_step(gates_h, before.h, rows), {}};
    case Cell::gru:
      expect_step(call, "gates_x", gates_x, gates);
      return {gru_step(gates_x, gates_h, before.h, rows), {}};
    case Cell::lstm:
      expect_step(call, "c", before.c, before.h.shape());
      return lstm_step(gates_h, before, rows);
  }
  throw Error("cell", "unknown");
}

}  // namespace fovea
