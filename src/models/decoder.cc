#include "models/decoder.h"

#include "fovea/ops.h"

namespace fovea::models {
namespace {

// s_0 = tanh(W·last + b); an lstm's second half is its cell, without the tanh.
nn::State first_state(const nn::Linear& initial, const nn::State& last, nn::Cell cell) {
  const Tensor x = initial(last.h);
  if (cell != nn::Cell::lstm) return {tanh(x), {}};
  const int64_t H = x.size(1) / 2;
  const std::vector<Tensor> halves = split(x, {H, H}, 1);
  return {tanh(halves[0]), halves[1]};
}

nn::State rows_of(const nn::State& s, const Tensor& ids) {
  return {index_select(s.h, 0, ids), s.c ? index_select(s.c, 0, ids) : Tensor()};
}

}  // namespace

Encoded encode(const Seq2Seq& m, const Tensor& source, const Tensor& lengths, const Dropout& drop) {
  return encode_vectors(m, m.source(source), lengths, drop);
}

Encoded encode_vectors(const Seq2Seq& m, const Tensor& source, const Tensor& lengths,
                       const Dropout& drop) {
  const Tensor x = dropped(source, drop.at("source"));
  auto [sequence, last] = m.encoder(x, lengths, drop.probability, drop.seed.at("encoder").value());
  return {dropped(sequence, drop.at("encoded")), last, lengths};
}

Encoded select_rows(const Encoded& e, const Tensor& ids) {
  Encoded rows{index_select(e.sequence, 1, ids), {}, index_select(e.lengths, 0, ids)};
  for (const nn::State& s : e.last) rows.last.push_back(rows_of(s, ids));
  return rows;
}

Decoder::Decoder(const ConfiguredWriter& written, const Encoded& e, const LookPass& pass)
    : model_(written.writer), config_(written.config) {
  const Writer& m = model_;
  const WriterConfig& c = config_;
  feeds_ = c.context != Context::fixed && (c.order == Order::bahdanau || c.input_feeding);
  for (size_t l = 0; l < m.cells.size(); ++l) {
    states_.push_back(first_state(m.initial[l], e.last[l], c.cell));
    const Tensor& w = m.cells[l].input.weight;
    cells_.emplace_back(m.cells[l],
                        l == 0 && feeds_ ? w.slice(1, c.embedding, w.size(1)) : Tensor());
    if (l > 0) inputs_.emplace_back(m.cells[l].input);
  }
  if (c.context == Context::fixed) {
    fixed_ = e.last.back().h;
    return;
  }
  const Tensor memory = e.sequence.transpose(0, 1);
  looker_.emplace(c, m.look, LookSource{memory, memory, e.lengths}, pass);
  if (m.gate.weight) gate_.emplace(m.gate);
  if (c.input_feeding) {
    readout_.emplace(m.readout);
    fed_ = Tensor::zeros({states_[0].h.size(0), c.hidden});
  }
}

Tensor Decoder::gates(const Tensor& embedded) {
  const nn::Linear& input = model_.cells[0].input;
  const int64_t E = config_.embedding;
  if (input.weight.size(1) == E) return input(embedded);
  const Tensor gates = nn::Linear{input.weight.slice(1, 0, E), input.bias}(embedded);
  if (!fixed_) return gates;
  return gates + nn::Linear{input.weight.slice(1, E, input.weight.size(1)), {}}(fixed_);
}

bool Decoder::looks_once() const { return looker_ && !feeds_; }

Decoder::Step Decoder::step(const Tensor& gates_y, const Dropout& drop) {
  const WriterConfig& c = config_;
  const auto look_from = [&](const Tensor& state) {
    Look look = looker_->step(state, t_);
    if (gate_) look.context = look.context * sigmoid((*gate_)(state));
    return look;
  };
  Step s;
  Tensor gates = gates_y, fed;
  if (feeds_ && c.order == Order::bahdanau) {
    s.query = states_.back().h;
    s.look = look_from(s.query);
    fed = s.look.context;
  } else if (feeds_) {
    fed = fed_;
  }
  for (size_t l = 0; l < cells_.size(); ++l) {
    if (l > 0) {
      const Dropout here = drop.at("decoder").at(t_).at(static_cast<int64_t>(l));
      gates = inputs_[l - 1](dropped(states_[l - 1].h, here));
      fed = {};
    }
    states_[l] = cells_[l](gates, states_[l], {}, fed);
  }
  s.state = states_.back().h;
  if (!s.query) s.query = s.state;
  if (c.input_feeding) {
    s.look = look_from(s.state);
    s.out = fed_ = tanh((*readout_)(concatenate({s.state, s.look.context}, -1)));
  }
  ++t_;
  return s;
}

void Decoder::select_rows(const Tensor& ids) {
  for (nn::State& s : states_) s = rows_of(s, ids);
  if (fed_) fed_ = index_select(fed_, 0, ids);
}

Tensor gated(const Writer& m, const Tensor& states, const Tensor& contexts) {
  return m.gate.weight ? contexts * sigmoid(m.gate(states)) : contexts;
}

Tensor read_out(const ConfiguredWriter& m, const Tensor& state, const Tensor& context,
                const Tensor& embedded) {
  std::vector<Tensor> parts = {state, context};
  if (m.config.order == Order::bahdanau) parts.push_back(embedded);
  return tanh(m.writer.readout(concatenate(parts, -1)));
}

}  // namespace fovea::models
