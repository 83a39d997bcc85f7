#include "fovea/writer.h"

#include "fovea/ops.h"
#include "models/checks.h"
#include "models/decoder.h"
#include "models/screen.h"
#include "models/tokens.h"
#include "models/translated.h"

namespace fovea::models {
namespace {

// The readout reads the state, the context where there is one, and in Bahdanau's order y_{t−1}.
int64_t read_width(const WriterConfig& c, int64_t context) {
  return c.hidden + context + (c.order == Order::bahdanau ? c.embedding : 0);
}

// What enters the first cell beside y_{t−1}.
int64_t fed_width(const WriterConfig& c, int64_t context) {
  if (c.order == Order::bahdanau || c.context == Context::fixed) return context;
  return c.input_feeding ? c.hidden : 0;
}

}  // namespace

const char* name_of(Context c) { return c == Context::fixed ? "fixed" : "attention"; }
const char* name_of(Order o) { return o == Order::bahdanau ? "bahdanau" : "luong"; }
Context context(const std::string& name) {
  return by_name("writer", "context", name, {Context::fixed, Context::attention});
}
Order order(const std::string& name) {
  return by_name("writer", "order", name, {Order::bahdanau, Order::luong});
}

void check(const WriterConfig& c, const char* call) {
  const auto in_range = [&](const char* field, int64_t value, int64_t low, int64_t high) {
    expect_range(call, field, value, low, high);
  };
  in_range("target_vocabulary", c.target_vocabulary, 1, 10 * kLargest);
  in_range("embedding", c.embedding, 1, 16384);
  in_range("hidden", c.hidden, 1, 16384);
  in_range("layers", c.layers, 1, 64);
  if (c.context == Context::attention) check(static_cast<const LookConfig&>(c));
  if (c.input_feeding && c.order != Order::luong) {
    throw Error(call, "input_feeding belongs to the luong order; bahdanau feeds its context");
  }
  if (c.input_feeding && c.context == Context::fixed) {
    throw Error(call, "input_feeding needs attention; a fixed context enters every step");
  }
  if (c.gate && c.context == Context::fixed) {
    throw Error(call, "a gate needs attention; a fixed context has none");
  }
}

Writer writer(nn::Weights& w, const WriterConfig& c, int64_t memory) {
  Writer m;
  m.target = nn::embedding(w, "target", c.target_vocabulary, c.embedding);
  const int64_t states = c.cell == nn::Cell::lstm ? 2 : 1;
  for (int64_t l = 0; l < c.layers; ++l) {
    const std::string layer = std::to_string(l);
    m.initial.push_back(nn::linear(w, "initial." + layer, memory, states * c.hidden));
    const int64_t in = l > 0 ? c.hidden : c.embedding + fed_width(c, memory);
    m.cells.push_back(nn::cell_weights(w, "decoder." + layer, c.cell, in, c.hidden));
  }
  if (c.context == Context::attention) {
    m.look = look_weights(w, "", c, {.query = c.hidden, .key = memory, .hidden = c.hidden});
    if (c.gate) m.gate = nn::linear(w, "gate", c.hidden, 1);
  }
  m.readout = nn::linear(w, "readout", read_width(c, memory), c.hidden);
  m.output = nn::linear(w, "output", c.hidden, c.target_vocabulary);
  m.screen = std::make_shared<OutputScreen>();
  return m;
}

namespace {

// How the rows of a pass go: as the batch has them, or each twice, first with the expectation in
// place of its choices.
struct RowsToLearn {
  bool twice = false;
  Tensor expected;  // bool, or undefined where all choose
};

RowsToLearn rows_of(const WriterConfig& w, int64_t B, const LossConfig& c) {
  if (c.mode != Mode::train || w.context == Context::fixed || !draws(w)) return {};
  if (c.baseline == Baseline::expected) {
    std::vector<uint8_t> first(static_cast<size_t>(2 * B));
    for (size_t i = 0; i < first.size(); i += 2) first[i] = 1;
    return {true, Tensor::from_bools(first, {2 * B})};
  }
  if (c.semi_sampling == 0) return {};
  const Seed seed = Seed(c.seed).at("decoder").at("expectation");
  return {false, rows_to_expect(B, c.semi_sampling, seed.value())};
}

// Of rows that went twice, the first ones or the second ones: [T,2B,..] → [T,B,..].
Tensor one_way(const Tensor& x, int64_t which) {
  Shape shape = x.shape();
  shape[1] /= 2;
  shape.insert(shape.begin() + 2, 2);
  return x.reshape(shape).select(2, which);
}

// Everything a loss needs of one pass over the whole target.
struct Pass {
  bool twice = false;            // 2B rows
  Tensor states, contexts, out;  // [T,B,·]
  Tensor queries;                // [T,B,H], hard attention alone
  Tensor log_prob, entropy;      // [T,B], hard attention alone
};

Pass run(const ConfiguredWriter& m, Encoded source, const Tensor& target_in, const LossConfig& c,
         const Intervention& intervention) {
  const Seed seed(c.seed);
  const Dropout drop{c.dropout, seed.at("dropout")};
  const int64_t B = target_in.size(1);
  const RowsToLearn rows = rows_of(m.config, B, c);
  Tensor embedded = dropped(m.writer.target(target_in), drop.at("target"));  // [T,B,E]
  if (rows.twice) {
    source = select_rows(source, each_repeated(B, 2));
    embedded = index_select(embedded, 1, each_repeated(B, 2));
  }
  Decoder decoder(m, source,
                  {.mode = c.mode,
                   .seed = seed.at("decoder").value(),
                   .expected = rows.expected,
                   .intervention = intervention});
  std::vector<Tensor> states, queries, contexts, outs, log_probs, entropies;
  for (const Tensor& gates : unbind(decoder.gates(embedded), 0)) {
    const Decoder::Step s = decoder.step(gates, drop);
    states.push_back(s.state);
    queries.push_back(s.query);
    if (s.look.context) contexts.push_back(s.look.context);
    if (s.look.log_prob) {
      log_probs.push_back(s.look.log_prob);
      entropies.push_back(s.look.entropy);
    }
    if (s.out) outs.push_back(s.out);
  }
  Pass pass{.twice = rows.twice, .states = stack(states, 0)};
  if (!log_probs.empty()) {
    pass.log_prob = stack(log_probs, 0);
    pass.entropy = stack(entropies, 0);
  }
  if (decoder.looks_once()) {
    const Look look = decoder.looker().all(pass.states.transpose(0, 1));  // [B,T,·]
    pass.contexts = gated(m.writer, pass.states, look.context.transpose(0, 1));
    if (look.log_prob) {
      pass.log_prob = look.log_prob.transpose(0, 1);
      pass.entropy = look.entropy.transpose(0, 1);
    }
  } else if (const Tensor fixed = decoder.fixed()) {
    const int64_t T = pass.states.size(0);
    pass.contexts = fixed.unsqueeze(0).expand({T, fixed.size(0), fixed.size(1)});
  } else {
    pass.contexts = stack(contexts, 0);
  }
  if (pass.log_prob) pass.queries = stack(queries, 0);
  pass.out = outs.empty() ? read_out(m, pass.states, pass.contexts, embedded) : stack(outs, 0);
  pass.out = dropped(pass.out, drop.at("readout"));
  return pass;
}

struct Drawn {
  Tensor loss;  // summed
  double nll = 0;
};

// −log p(y|a) and the terms of reinforce(). Where rows went twice, the mean of both ways'.
Drawn drawn_of(const Writer& m, const Pass& pass, const Tensor& target, const LossConfig& c) {
  const int64_t B = target.size(1);
  const auto chose = [&](const Tensor& x) { return pass.twice ? one_way(x, 1) : x; };
  const Tensor targets = pass.twice ? index_select(target, 1, each_repeated(B, 2)) : target;
  const Tensor nll = cross_entropy(m.output(pass.out), targets,
                                   {.label_smoothing = c.label_smoothing,
                                    .ignore_index = kPadding,
                                    .reduction = Reduction::none});
  const Tensor counts = not_equal(target, Tensor::zeros({}, DType::i64)).to(DType::f32);
  const Tensor R = returns(-nll.detach(), c.discount);
  // The baseline sees what the choice was made from and nothing that came of it.
  Tensor guess = m.look.baseline(chose(pass.queries).detach()).squeeze(-1);  // [T,B]
  if (pass.twice) guess = guess + one_way(R, 0);
  const Tensor chosen =
      reinforce({chose(pass.log_prob), chose(pass.entropy), counts}, chose(R), guess, c);
  const Tensor total = sum(nll) / (pass.twice ? 2.0f : 1.0f);
  return {total + chosen, sum(chose(nll)).item()};
}

}  // namespace

Tensor logits_of(const ConfiguredWriter& m, const Encoded& memory, const Tensor& target_in,
                 const Intervention& intervention) {
  LossConfig judged;
  judged.mode = Mode::eval;
  return m.writer.output(run(m, memory, target_in, judged, intervention).out);
}

Loss loss_of(const ConfiguredWriter& m, const Encoded& memory, const Targets& targets,
             const LossConfig& c, const Intervention& intervention) {
  const Pass pass = run(m, memory, targets.in, c, intervention);
  if (!pass.log_prob) {
    return token_loss(pass.out, targets.out, losses_of(m.writer.output), c.label_smoothing);
  }
  const Drawn drawn = drawn_of(m.writer, pass, targets.out, c);
  const int64_t tokens = places_of(targets.out).numel();
  return {drawn.loss / static_cast<float>(tokens), drawn.nll, tokens};
}

}  // namespace fovea::models
