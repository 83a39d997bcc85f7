#include "fovea/seq2seq.h"

#include <fmt/format.h>

#include "core/random.h"
#include "fovea/ops.h"
#include "models/decoder.h"
#include "models/screen.h"

namespace fovea::models {
namespace {

constexpr int64_t kLargest = int64_t{1} << 20;

void in_range(const char* field, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) {
    throw Error("seq2seq",
                fmt::format("{} must be in [{}, {}], found {}", field, low, high, value));
  }
}

template <class E, size_t N>
E by_name(const char* what, const std::string& name, const E (&all)[N]) {
  std::string known;
  for (const E e : all) {
    if (name == name_of(e)) return e;
    known += std::string(known.empty() ? "" : ", ") + name_of(e);
  }
  throw Error("seq2seq", fmt::format("no {} '{}'; there are {}", what, name, known));
}

// The readout reads the state, the context where there is one, and in Bahdanau's order y_{t−1}.
int64_t read_width(const Seq2SeqConfig& c, int64_t context) {
  return c.hidden + context + (c.order == Order::bahdanau ? c.embedding : 0);
}

// What enters the first cell beside y_{t−1}.
int64_t fed_width(const Seq2SeqConfig& c, int64_t context) {
  if (c.order == Order::bahdanau || c.context == Context::fixed) return context;
  return c.input_feeding ? c.hidden : 0;
}

}  // namespace

const char* name_of(Context c) { return c == Context::fixed ? "fixed" : "attention"; }
const char* name_of(Order o) { return o == Order::bahdanau ? "bahdanau" : "luong"; }
const char* name_of(Locality l) {
  static constexpr const char* kNames[] = {"global", "local_m", "local_p"};
  return kNames[static_cast<int>(l)];
}
Context context(const std::string& name) {
  return by_name("context", name, {Context::fixed, Context::attention});
}
Order order(const std::string& name) {
  return by_name("order", name, {Order::bahdanau, Order::luong});
}
Locality locality(const std::string& name) {
  return by_name("locality", name, {Locality::global, Locality::local_m, Locality::local_p});
}

void check(const Seq2SeqConfig& c) {
  in_range("source_vocabulary", c.source_vocabulary, 1, 10 * kLargest);
  in_range("target_vocabulary", c.target_vocabulary, 1, 10 * kLargest);
  in_range("embedding", c.embedding, 1, 16384);
  in_range("hidden", c.hidden, 1, 16384);
  in_range("layers", c.layers, 1, 64);
  in_range("window", c.window, 1, kLargest);
  in_range("longest_source", c.longest_source, 1, kLargest);
  if (c.context == Context::attention) {
    score_def(c.score);
    weighting_def(c.weighting);
  }
  if (c.input_feeding && c.order != Order::luong) {
    throw Error("seq2seq", "input_feeding belongs to the luong order; bahdanau feeds its context");
  }
  if (c.input_feeding && c.context == Context::fixed) {
    throw Error("seq2seq", "input_feeding needs attention; a fixed context enters every step");
  }
}

Seq2Seq seq2seq(const Seq2SeqConfig& c, uint64_t seed) {
  check(c);
  Seq2Seq m{.config = c, .weights = nn::Weights(seed)};
  nn::Weights& w = m.weights;
  m.source = nn::embedding(w, "source", c.source_vocabulary, c.embedding);
  m.target = nn::embedding(w, "target", c.target_vocabulary, c.embedding);
  m.encoder = nn::recurrent(w, "encoder",
                            {.cell = c.cell,
                             .input = c.embedding,
                             .hidden = c.hidden,
                             .layers = c.layers,
                             .bidirectional = c.bidirectional});
  const int64_t context = c.hidden * (c.bidirectional ? 2 : 1);
  const int64_t states = c.cell == nn::Cell::lstm ? 2 : 1;
  for (int64_t l = 0; l < c.layers; ++l) {
    const std::string layer = std::to_string(l);
    m.initial.push_back(nn::linear(w, "initial." + layer, context, states * c.hidden));
    const int64_t in = l > 0 ? c.hidden : c.embedding + fed_width(c, context);
    m.cells.push_back(nn::cell_weights(w, "decoder." + layer, c.cell, in, c.hidden));
  }
  if (c.context == Context::attention) {
    const ScoreDef& def = score_def(c.score);
    const bool project = def.equal_widths && context != c.hidden;
    if (project) m.keys = nn::linear(w, "keys", context, c.hidden, nn::WithBias::no);
    m.score = score_parameters(w, "score", def,
                               {.query = c.hidden,
                                .key = project ? c.hidden : context,
                                .hidden = c.hidden,
                                .longest = c.longest_source});
    if (c.locality == Locality::local_p) {
      m.window["w_p"] = w.add("window.w_p", {c.hidden, c.hidden}, nn::Init::xavier);
      m.window["u_p"] = w.add("window.u_p", {c.hidden}, nn::Init::uniform);
    }
    if (weighting_def(c.weighting).hard) m.baseline = nn::linear(w, "baseline", c.hidden, 1);
  }
  m.readout = nn::linear(w, "readout", read_width(c, context), c.hidden);
  m.output = nn::linear(w, "output", c.hidden, c.target_vocabulary);
  m.screen = std::make_shared<OutputScreen>();
  return m;
}

namespace {

// Everything a loss needs of one pass over the whole target.
struct Pass {
  Tensor states, contexts, out;  // [T,B,·]
  Tensor queries;                // [T,B,H], hard attention alone
  Tensor log_prob, entropy;      // [T,B], hard attention alone
};

Pass run(const Seq2Seq& m, const Batch& batch, const LossConfig& c) {
  const Dropout drop{c.dropout, c.seed};
  const Encoded source = encode(m, batch.source, batch.source_lengths, drop);
  const Tensor embedded = dropped(m.target(batch.target_in), drop, 2);  // [T,B,E]
  Decoder decoder(m, source, {.mode = c.mode, .seed = c.seed, .semi_sampling = c.semi_sampling});
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
  Pass pass{.states = stack(states, 0)};
  if (!log_probs.empty()) {
    pass.log_prob = stack(log_probs, 0);
    pass.entropy = stack(entropies, 0);
  }
  if (decoder.looks_once()) {
    const Look look = decoder.source().all(pass.states.transpose(0, 1));  // [B,T,·]
    pass.contexts = look.context.transpose(0, 1);
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
  pass.out = dropped(pass.out, drop, 3);
  return pass;
}

// R_t = Σ_{t'≥t} discount^{t'−t}·log p(y_t'), from the losses [T,B].
Tensor returns(const Tensor& nll, float discount) {
  Tensor R = Tensor::zeros(nll.shape());
  const int64_t T = nll.size(0), B = nll.size(1);
  const float* loss = nll.data<float>();
  float* r = R.mutable_data<float>();
  for (int64_t t = T - 1; t >= 0; --t) {
    for (int64_t b = 0; b < B; ++b) {
      const float later = t + 1 < T ? r[(t + 1) * B + b] : 0.0f;
      r[t * B + b] = discount * later - loss[t * B + b];
    }
  }
  return R;
}

// The terms that teach a choice which has no gradient of its own. The baseline sees what the choice
// was made from and nothing that came of it, or the gradient would be biased.
Tensor reinforce(const Seq2Seq& m, const Pass& pass, const Tensor& nll, const Tensor& counts,
                 const LossConfig& c) {
  const Tensor R = returns(nll.detach(), c.discount);
  const Tensor b = m.baseline(pass.queries.detach()).squeeze(-1);  // [T,B]
  const Tensor advantage = (R - b).detach() * counts;
  return sum(square(R - b) * counts) - sum(advantage * pass.log_prob) * c.reward -
         sum(pass.entropy * counts) * c.entropy;
}

// Places of the targets that count, flattened.
Tensor places_of(const Tensor& targets) {
  const std::vector<int64_t> ids = targets.to_ids();
  std::vector<int64_t> places;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != kPadding) places.push_back(static_cast<int64_t>(i));
  }
  return Tensor::from_ids(places, {static_cast<int64_t>(places.size())});
}

}  // namespace

Loss loss(const Seq2Seq& m, const Batch& batch, const LossConfig& c) {
  const Pass pass = run(m, batch, c);
  const Tensor places = places_of(batch.target_out);
  const int64_t tokens = places.numel(), all = batch.target_out.numel(), H = m.config.hidden;
  Loss result{.tokens = tokens};
  if (pass.log_prob) {
    const Tensor nll = cross_entropy(m.output(pass.out), batch.target_out,
                                     {.label_smoothing = c.label_smoothing,
                                      .ignore_index = kPadding,
                                      .reduction = Reduction::none});
    const Tensor counts = not_equal(batch.target_out, Tensor::zeros({}, DType::i64)).to(DType::f32);
    const Tensor total = sum(nll);
    result.nll = total.item();
    result.loss = (total + reinforce(m, pass, nll, counts, c)) / static_cast<float>(tokens);
    return result;
  }
  Tensor out = pass.out.reshape({all, H}), targets = batch.target_out.reshape({all});
  if (tokens < all) {
    out = index_select(out, 0, places);
    targets = index_select(targets, 0, places);
  }
  result.loss = cross_entropy(m.output(out), targets, {.label_smoothing = c.label_smoothing});
  result.nll = static_cast<double>(result.loss.item()) * static_cast<double>(tokens);
  return result;
}

}  // namespace fovea::models
