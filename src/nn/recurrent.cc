#include <algorithm>

#include "core/random.h"
#include "fovea/nn.h"
#include "fovea/ops.h"
#include "tensor/gru_steps.h"
#include "tensor/impl.h"
#include "tensor/recurrent.h"

namespace fovea::nn {
namespace {

// Names of one cell's tensors: NAME.weight_ih SUFFIX.
struct CellName {
  std::string name, suffix;
};

CellWeights add_cell(Weights& weights, const CellName& called, Cell cell, int64_t input,
                     int64_t hidden) {
  const int64_t rows = gates_of(cell) * hidden;
  const auto layer = [&](const char* part, int64_t in, Init init) {
    return Linear{weights.add(called.name + ".weight_" + part + called.suffix, {rows, in}, init),
                  weights.add(called.name + ".bias_" + part + called.suffix, {rows}, Init::zeros)};
  };
  return {cell, layer("ih", input, Init::uniform), layer("hh", hidden, Init::orthogonal)};
}

void check(const RecurrentConfig& config, const Tensor& x, const Tensor& lengths) {
  expect_dtype("recurrent", "x", x, DType::f32);
  if (x.rank() != 3 || x.size(2) != config.input || x.size(0) == 0) {
    throw Error("recurrent", "x is " + to_string(x.shape()) + ", expected [T, B, " +
                                 std::to_string(config.input) + "], T at least 1");
  }
  if (!lengths) return;
  expect_dtype("recurrent", "lengths", lengths, DType::i64);
  if (lengths.shape() != Shape{x.size(1)}) {
    throw Error("recurrent", "lengths is " + to_string(lengths.shape()) + ", expected [" +
                                 std::to_string(x.size(1)) + "]");
  }
  for (const int64_t n : lengths.to_ids()) {
    if (n < 0 || n > x.size(0)) {
      throw Error("recurrent",
                  "length " + std::to_string(n) + " is not in 0 … " + std::to_string(x.size(0)));
    }
  }
}

// t < length: bool [T,B].
Tensor valid_steps(int64_t steps, const Tensor& lengths) {
  if (!lengths) return {};
  const std::vector<int64_t> n = lengths.to_ids();
  if (std::all_of(n.begin(), n.end(), [&](int64_t length) { return length == steps; })) return {};
  return less(Tensor::arange(steps).unsqueeze(1), lengths.unsqueeze(0));
}

}  // namespace

Cell cell(const std::string& name) {
  for (const Cell c : {Cell::rnn, Cell::gru, Cell::lstm}) {
    if (name == name_of(c)) return c;
  }
  throw Error("cell", "expected rnn, gru or lstm, found '" + name + "'");
}

CellWeights cell_weights(Weights& weights, const std::string& name, Cell cell, int64_t input,
                         int64_t hidden) {
  return add_cell(weights, {name, ""}, cell, input, hidden);
}

Stepper::Stepper(const CellWeights& weights) : Stepper(weights, {}) {}

Stepper::Stepper(const CellWeights& weights, const Tensor& w_fed)
    : cell_(weights.cell), recurrent_(weights.recurrent) {
  if (w_fed) fed_.emplace(Linear{w_fed, {}});
  if (cell_ != Cell::gru || !has_gru_steps(weights.recurrent.weight)) return;
  whole_ = std::make_shared<GruSteps>(
      LinearWeights{weights.recurrent.weight, weights.recurrent.bias}, w_fed);
}

State Stepper::operator()(const Tensor& gates_x, const State& before, const Tensor& active,
                          const Tensor& fed) {
  if (fed && !fed_) throw Error("Stepper", "something is fed, and there are no weights for it");
  if (whole_) return {(*whole_)(gates_x, fed, before.h, active), {}};
  const Tensor gates = fed ? (*fed_)(fed, gates_x) : gates_x;
  if (cell_ == Cell::gru) return cell_step(cell_, gates, recurrent_(before.h), before, active);
  return cell_step(cell_, {}, recurrent_(before.h, gates), before, active);
}

Recurrent::Output Recurrent::operator()(const Tensor& x, const Tensor& lengths, float dropout,
                                        uint64_t seed) const {
  check(config, x, lengths);
  const Tensor valid = valid_steps(x.size(0), lengths);
  const size_t directions = config.bidirectional ? 2 : 1;
  // What lies past a row's end may be anything; times 0, in W_x's gradient, it must give 0.
  Output out{valid ? where(valid.unsqueeze(2), x, Tensor::scalar(0.0f)) : x, {}};
  for (int64_t l = 0; l < config.layers; ++l) {
    if (l > 0 && dropout > 0.0f) {
      out.sequence = fovea::dropout(out.sequence, dropout, Seed(seed).at(l).value());
    }
    std::vector<Direction> given;
    for (size_t d = 0; d < directions; ++d) {
      const CellWeights& c = cells[l * directions + d];
      given.push_back({c.input(out.sequence), {c.recurrent.weight, c.recurrent.bias}});
    }
    Unrolled next = recurrent_layer(config.cell, given, valid);
    out.sequence = std::move(next.sequence);
    out.last.push_back(std::move(next.last));
  }
  return out;
}

Recurrent recurrent(Weights& weights, const std::string& name, const RecurrentConfig& config) {
  Recurrent r{config, {}};
  const int64_t directions = config.bidirectional ? 2 : 1;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const int64_t input = layer == 0 ? config.input : config.hidden * directions;
    const std::string suffix = "_l" + std::to_string(layer);
    for (int64_t d = 0; d < directions; ++d) {
      r.cells.push_back(add_cell(weights, {name, d == 0 ? suffix : suffix + "_reverse"},
                                 config.cell, input, config.hidden));
    }
  }
  return r;
}

}  // namespace fovea::nn
