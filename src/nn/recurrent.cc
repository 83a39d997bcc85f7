#include <algorithm>

#include "core/random.h"
#include "fovea/nn.h"
#include "fovea/ops.h"
#include "nn/cell.h"
#include "tensor/impl.h"

namespace fovea::nn {
namespace {

struct CellEntry {
  const char* name;
  int64_t gates;
};
constexpr CellEntry kCells[] = {{"rnn", 1}, {"gru", 3}, {"lstm", 4}};  // by Cell

CellWeights add_cell(Weights& weights, const std::string& name, const std::string& suffix,
                     Cell cell, int64_t input, int64_t hidden) {
  const int64_t rows = gates_of(cell) * hidden;
  const auto layer = [&](const char* part, int64_t in, Init init) {
    return Linear{weights.add(name + ".weight_" + part + suffix, {rows, in}, init),
                  weights.add(name + ".bias_" + part + suffix, {rows}, Init::zeros)};
  };
  return {cell, layer("ih", input, Init::uniform), layer("hh", hidden, Init::orthogonal)};
}

State zero_state(Cell cell, int64_t batch, int64_t hidden) {
  return {Tensor::zeros({batch, hidden}),
          cell == Cell::lstm ? Tensor::zeros({batch, hidden}) : Tensor()};
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

struct Direction {
  std::vector<Tensor> h;  // by t
  State last;
};

Direction walk(const CellWeights& weights, const Tensor& x, const Tensor& valid, bool backwards) {
  const int64_t steps = x.size(0);
  const std::vector<Tensor> gates = unbind(weights.input(x), 0);
  Stepper step(weights);
  Direction out{std::vector<Tensor>(steps), zero_state(weights.cell, x.size(1), weights.hidden())};
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t t = backwards ? steps - 1 - i : i;
    out.last = step(gates[t], out.last, valid ? valid.select(0, t) : Tensor());
    out.h[t] = out.last.h;
  }
  return out;
}

Tensor beside(const Tensor& a, const Tensor& b) { return a ? concatenate({a, b}, -1) : Tensor(); }

}  // namespace

const char* name_of(Cell cell) { return kCells[static_cast<int>(cell)].name; }
int64_t gates_of(Cell cell) { return kCells[static_cast<int>(cell)].gates; }

Cell cell(const std::string& name) {
  for (const Cell c : {Cell::rnn, Cell::gru, Cell::lstm}) {
    if (name == name_of(c)) return c;
  }
  throw Error("cell", "expected rnn, gru or lstm, found '" + name + "'");
}

CellWeights cell_weights(Weights& weights, const std::string& name, Cell cell, int64_t input,
                         int64_t hidden) {
  return add_cell(weights, name, "", cell, input, hidden);
}

Stepper::Stepper(const CellWeights& weights) : cell_(weights.cell), recurrent_(weights.recurrent) {}

State Stepper::operator()(const Tensor& gates_x, const State& before, const Tensor& active) {
  if (cell_ == Cell::gru) return cell_step(cell_, gates_x, recurrent_(before.h), before, active);
  return cell_step(cell_, {}, recurrent_(before.h, gates_x), before, active);
}

Recurrent::Output Recurrent::operator()(const Tensor& x, const Tensor& lengths, float dropout,
                                        uint64_t seed) const {
  check(config, x, lengths);
  const Tensor valid = valid_steps(x.size(0), lengths);
  const size_t directions = config.bidirectional ? 2 : 1;
  const auto without_padding = [&](const Tensor& sequence) {
    return valid ? where(valid.unsqueeze(2), sequence, Tensor::scalar(0.0f)) : sequence;
  };
  Output out{without_padding(x), {}};
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    if (layer > 0 && dropout > 0.0f) {
      out.sequence = fovea::dropout(out.sequence, dropout, mix64(seed ^ mix64(layer)));
    }
    const CellWeights* weights = &cells[layer * directions];
    const Direction forth = walk(weights[0], out.sequence, valid, false);
    if (!config.bidirectional) {
      out.sequence = without_padding(stack(forth.h, 0));
      out.last.push_back(forth.last);
      continue;
    }
    const Direction back = walk(weights[1], out.sequence, valid, true);
    out.sequence = without_padding(beside(stack(forth.h, 0), stack(back.h, 0)));
    out.last.push_back({beside(forth.last.h, back.last.h), beside(forth.last.c, back.last.c)});
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
      r.cells.push_back(add_cell(weights, name, d == 0 ? suffix : suffix + "_reverse", config.cell,
                                 input, config.hidden));
    }
  }
  return r;
}

}  // namespace fovea::nn
