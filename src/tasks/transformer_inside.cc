#include "tasks/transformer_inside.h"

#include <algorithm>

#include "core/random.h"
#include "fovea/error.h"
#include "fovea/ops.h"

namespace fovea::tasks {
namespace {

using models::Intervention;

constexpr int64_t kSpecialIds = 4;  // ids that stand for no piece are usually the first

// Ids of a sequence, the same in each of R rows: [R,L].
Tensor in_rows(const std::vector<int64_t>& ids, int64_t R) {
  const auto L = static_cast<int64_t>(ids.size());
  return Tensor::from_ids(ids, {1, L}).expand({R, L}).contiguous();
}

Tensor vectors_of(const nn::Embedding& table, const std::vector<int64_t>& ids) {
  return table(Tensor::from_ids(ids, {static_cast<int64_t>(ids.size())})).detach();
}

// A translator's rows [R,S,E] of a source → the decoder's [R,T,W].
Tensor states_of(const models::Transformer& m, const ForcedTranslation& w, const Tensor& rows,
                 const models::TransformerPass& pass) {
  const Tensor encoded = models::encode(m.config, m.encoder, rows, {}, pass);
  return models::decode_all(m, in_rows(w.in, rows.size(0)), models::project(m, encoded), pass);
}

// Through the encoder's layers, then through the decoder's: half of a row stays what it was, and of
// what it takes in, from its own past or from the source, goes what went into that.
Tensor rolled_out(const models::Transformer& m, const HeadsSeen& seen) {
  const NoGrad off;
  std::vector<Tensor> layers;
  for (const nn::Block& b : m.encoder.blocks) layers.push_back(seen.named(b.self.name));
  const Tensor source = explain::rollout(layers);  // [S,S]
  Tensor flow;                                     // [T,S]
  for (const nn::Block& b : m.decoder.blocks) {
    const Tensor taken = matmul(mean(seen.named(b.cross.name), {0}), source) * 0.5f;
    flow = flow ? matmul(explain::half_kept(seen.named(b.self.name)), flow) * 0.5f + taken : taken;
  }
  return flow / sum(flow, {1}, Keep::yes);
}

LayerSeen layer_in(const RunPass& pass, const nn::MultiHead& heads,
                   const std::vector<std::string>& rows, const std::vector<std::string>& columns) {
  return {heads.name, rows, columns, heads.config.heads,
          [pass, name = heads.name](const Select& asked) { return weights_in(pass, name, asked); }};
}

// What each row of a decoder that looks at a source had read.
std::vector<std::string> read_before(const std::vector<std::string>& outputs) {
  std::vector<std::string> before = {"⇥"};
  before.insert(before.end(), outputs.begin(), outputs.end() - 1);
  return before;
}

std::vector<LayerSeen> layers_of(const models::Transformer& m, const RunPass& pass,
                                 const Inside& inside) {
  std::vector<LayerSeen> all;
  const auto add = [&](const nn::MultiHead& heads, const auto& rows, const auto& columns) {
    all.push_back(layer_in(pass, heads, rows, columns));
  };
  for (auto b = m.decoder.blocks.rbegin(); b != m.decoder.blocks.rend(); ++b) {
    add(b->cross, inside.outputs, inside.inputs);
  }
  const std::vector<std::string> before = read_before(inside.outputs);
  for (const nn::Block& b : m.decoder.blocks) add(b.self, inside.outputs, before);
  for (const nn::Block& b : m.encoder.blocks) add(b.self, inside.inputs, inside.inputs);
  return all;
}

}  // namespace

Tensor log_odds_of(const models::Transformer& m, const Tensor& states,
                   const std::vector<int64_t>& targets) {
  const auto of = [&](const Tensor& some, const std::vector<int64_t>& those) {
    return log_odds_of(models::logits(m, some).transpose(0, 1), those);
  };
  if (states.requires_grad()) return of(states, targets);
  constexpr int64_t kLogits = int64_t{1} << 22;
  const int64_t T = states.size(1), V = m.output.weight.size(0);
  const int64_t at_once = std::max<int64_t>(1, kLogits / (V * states.size(0)));
  std::vector<Tensor> parts;
  for (int64_t begin = 0; begin < T; begin += at_once) {
    const int64_t end = std::min(T, begin + at_once);
    parts.push_back(of(states.slice(1, begin, end).contiguous(),
                       {targets.begin() + begin, targets.begin() + end}));
  }
  return concatenate(parts, 1);
}

Tensor log_odds_of_own(const models::Transformer& m, const Tensor& states,
                       const std::vector<int64_t>& targets, std::span<const int64_t> outputs) {
  const int64_t R = states.size(0), T = states.size(1), W = states.size(2);
  std::vector<int64_t> places, own;
  for (int64_t r = 0; r < R; ++r) {
    const int64_t t = outputs[static_cast<size_t>(r)];
    if (t < 0 || t >= T) throw Error("explain", "output " + std::to_string(t) + " is not there");
    places.push_back(r * T + t);
    own.push_back(targets[static_cast<size_t>(t)]);
  }
  const Tensor rows = index_select(states.reshape({R * T, W}), 0, Tensor::from_ids(places, {R}));
  return log_odds_of(models::logits(m, rows).unsqueeze(1), own).select(0, 0);  // [R,1,V] → [1,R]
}

void add_stack_attention(const models::Stack& stack, const RunPass& pass, Inside& inside) {
  inside.attention = [&stack, pass, inputs = inside.inputs,
                      rows = stack.causal ? inside.outputs : inside.inputs] {
    std::vector<LayerSeen> layers;
    for (auto b = stack.blocks.rbegin(); b != stack.blocks.rend(); ++b) {
      layers.push_back(layer_in(pass, b->self, rows, inputs));
    }
    return layers;
  };
  inside.rollout = [&stack, pass] {
    const NoGrad off;
    HeadsSeen seen;
    pass({.hook = seen.hook()});
    std::vector<Tensor> layers;
    for (const nn::Block& b : stack.blocks) layers.push_back(seen.named(b.self.name));
    return explain::rollout(layers);
  };
}

Tensor repeated_ids(const models::TransformerConfig& c, const Repeated& asked, int64_t vocabulary) {
  const bool bounded = c.positions == nn::Positions::learned;
  const int64_t n = bounded ? std::min(asked.n, c.longest / 2) : asked.n;
  const int64_t first = std::min(kSpecialIds, vocabulary - 1);
  std::vector<int64_t> ids;
  for (int64_t r = 0; r < asked.rows; ++r) {
    const Seed seed = Seed(asked.seed).at(r);
    for (int64_t i = 0; i < 2 * n; ++i) {
      ids.push_back(first + static_cast<int64_t>(seed.at(i % n).value() %
                                                 static_cast<uint64_t>(vocabulary - first)));
    }
  }
  return Tensor::from_ids(ids, {asked.rows, 2 * n});
}

void look_inside_decoder(const models::Transformer& m, const std::vector<int64_t>& ids,
                         const std::vector<int64_t>& out, Inside& inside) {
  inside.x = vectors_of(m.target, ids);
  inside.blank = mean_vector(m.target.table);
  inside.choices = m.output.weight.size(0);
  inside.targets = out;
  inside.states = [&m](const Tensor& rows, const models::TransformerPass& pass) {
    return models::decode_embedded(m, rows, {}, pass);
  };
  inside.said = [&m](const Tensor& states) { return models::logits(m, states); };
  inside.log_odds = [&m, out, states = inside.states](const Tensor& rows) {
    return log_odds_of(m, states(rows, {}), out);
  };
  inside.log_odds_each = [&m, out, states = inside.states](const Tensor& rows,
                                                           std::span<const int64_t> which) {
    return log_odds_of_own(m, states(rows, {}), out, which);
  };
  inside.opens = Inside::Opens::blocks;
  if (m.config.linear) return;  // its weights are never computed
  add_stack_attention(
      m.decoder,
      [states = inside.states, x = inside.x](const models::TransformerPass& pass) {
        states(x.unsqueeze(0), pass);
      },
      inside);
  inside.on_repeated = [&m](const Repeated& asked, const models::TransformerPass& pass) {
    const Tensor drawn = repeated_ids(m.config, asked, m.config.target_vocabulary);
    models::decode_all(m, drawn, {}, pass);
    return drawn;
  };
}

void look_inside_translator(const models::Transformer& m, const ForcedTranslation& w,
                            Inside& inside) {
  inside.x = vectors_of(m.source, w.source);
  inside.blank = mean_vector(m.source.table);
  inside.choices = m.output.weight.size(0);
  inside.targets = w.out;
  inside.states = [&m, w](const Tensor& rows, const models::TransformerPass& pass) {
    return states_of(m, w, rows, pass);
  };
  inside.said = [&m](const Tensor& states) { return models::logits(m, states); };
  inside.log_odds = [&m, w](const Tensor& rows) {
    return log_odds_of(m, states_of(m, w, rows, {}), w.out);
  };
  inside.log_odds_each = [&m, w](const Tensor& rows, std::span<const int64_t> which) {
    return log_odds_of_own(m, states_of(m, w, rows, {}), w.out, which);
  };
  inside.opens = Inside::Opens::blocks;
  if (m.config.linear) return;
  const RunPass passing = [&m, w, x = inside.x](const models::TransformerPass& pass) {
    states_of(m, w, x.unsqueeze(0), pass);
  };
  inside.attention = [&m, passing,
                      labels = Inside{.inputs = inside.inputs, .outputs = inside.outputs}] {
    return layers_of(m, passing, labels);
  };
  inside.rollout = [&m, passing] {
    const NoGrad off;
    HeadsSeen seen;
    passing({.hook = seen.hook()});
    return rolled_out(m, seen);
  };
  inside.on_repeated = [&m](const Repeated& asked, const models::TransformerPass& pass) {
    const Tensor ids = repeated_ids(
        m.config, asked, std::min(m.config.source_vocabulary, m.config.target_vocabulary));
    models::decode_all(m, ids, models::project(m, models::encode(m, ids, {}, pass)), pass);
    return ids;
  };
  inside.held = [&m, w](const Tensor& rows) {
    const nn::HeadsHook hook = on_heads(models::interventions::held(), ".cross", nullptr);
    return log_odds_of(m, states_of(m, w, rows, {.hook = hook}), w.out);
  };
  // Its looks are all heads of all layers that see the source; their mean is what is seen.
  inside.look = [&m, w, x = inside.x](const Intervention& how) {
    std::vector<Tensor> used;  // by layer, [H,T,S]
    const nn::HeadsHook hook = on_heads(how, ".cross", &used);
    const Tensor logits = models::logits(m, states_of(m, w, x.unsqueeze(0), {.hook = hook}));
    return explain::Seen{log_softmax(logits.select(0, 0)), mean(concatenate(used, 0), {0})};
  };
}

}  // namespace fovea::tasks
