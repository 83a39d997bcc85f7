#include "tasks/inside.h"

#include <algorithm>

#include "fovea/error.h"
#include "fovea/ops.h"
#include "tasks/translate/data.h"
#include "tasks/translate/translate.h"

namespace fovea::tasks::translation {
namespace {

using models::Intervention;

// A sentence and what the model wrote for it, by force: what is asked is how likely each token was.
struct Written {
  std::vector<int64_t> source, in, out;  // in: begin y_1 …; out: y_1 …, and the end where it came

  Tensor column(const std::vector<int64_t>& ids, int64_t rows) const {  // [L,R]
    const auto L = static_cast<int64_t>(ids.size());
    return Tensor::from_ids(ids, {L, 1}).expand({L, rows}).contiguous();
  }
  Tensor lengths(int64_t rows) const {
    const std::vector<int64_t> all(static_cast<size_t>(rows), static_cast<int64_t>(source.size()));
    return Tensor::from_ids(all, {rows});
  }
};

// Rows [R,S,E] → [T,R,V].
Tensor logits_of(const models::Seq2Seq& m, const Written& w, const Tensor& rows,
                 const Intervention& how) {
  const int64_t R = rows.size(0);
  return models::logits(m, {rows.transpose(0, 1), w.lengths(R), w.column(w.in, R)}, how);
}

Tensor logits_of(const models::Transformer& m, const Written& w, const Tensor& rows,
                 const nn::HeadsHook& hook) {
  const int64_t R = rows.size(0);
  const Tensor encoded = models::encode(m.config, m.encoder, rows, {}, {.hook = hook});
  const Tensor in = w.column(w.in, R).transpose(0, 1).contiguous();
  const Tensor states = models::decode_all(m, in, models::project(m, encoded), {.hook = hook});
  return m.output(states).transpose(0, 1);
}

void look_inside(const models::Seq2Seq& m, const Written& w, Inside& inside) {
  inside.x = m.source(Tensor::from_ids(w.source, {static_cast<int64_t>(w.source.size())})).detach();
  inside.blank = mean_vector(m.source.table);
  inside.log_odds = [&m, w](const Tensor& rows) {
    return log_odds_of(logits_of(m, w, rows, Intervention()), w.out);
  };
  if (m.config.context == models::Context::fixed) return;
  inside.held = [&m, w](const Tensor& rows) {
    return log_odds_of(logits_of(m, w, rows, models::interventions::held()), w.out);
  };
  inside.look = [&m, w, x = inside.x](const Intervention& how) {
    std::vector<Tensor> used;  // [1,·,S], one look after the other
    const auto keep = [&](const models::Weighed& seen) {
      used.push_back(how ? how(seen) : seen.weights);
      return used.back();
    };
    const Tensor logits = logits_of(m, w, x.unsqueeze(0), Intervention(keep));
    return explain::Seen{log_softmax(logits.squeeze(1)), concatenate(used, 1).squeeze(0)};
  };
  inside.attention = [look = inside.look, inputs = inside.inputs, outputs = inside.outputs] {
    const NoGrad off;
    return std::vector<LayerSeen>{{"look", look({}).weights.unsqueeze(0), outputs, inputs}};
  };
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

std::vector<LayerSeen> layers_of(const models::Transformer& m, const HeadsSeen& seen,
                                 const Inside& inside) {
  std::vector<LayerSeen> all;
  const auto add = [&](const nn::MultiHead& heads, const auto& rows, const auto& columns) {
    all.push_back({heads.name, seen.named(heads.name), rows, columns});
  };
  for (auto b = m.decoder.blocks.rbegin(); b != m.decoder.blocks.rend(); ++b) {
    add(b->cross, inside.outputs, inside.inputs);
  }
  std::vector<std::string> before = {"⇥"};  // what each row of the decoder had read
  before.insert(before.end(), inside.outputs.begin(), inside.outputs.end() - 1);
  for (const nn::Block& b : m.decoder.blocks) add(b.self, inside.outputs, before);
  for (const nn::Block& b : m.encoder.blocks) add(b.self, inside.inputs, inside.inputs);
  return all;
}

void look_inside(const models::Transformer& m, const Written& w, Inside& inside) {
  inside.x = m.source(Tensor::from_ids(w.source, {static_cast<int64_t>(w.source.size())})).detach();
  inside.blank = mean_vector(m.source.table);
  inside.log_odds = [&m, w](const Tensor& rows) {
    return log_odds_of(logits_of(m, w, rows, nn::HeadsHook()), w.out);
  };
  if (m.config.linear) return;  // its weights are never computed
  const auto seen_of = [&m, w, x = inside.x] {
    const NoGrad off;
    HeadsSeen seen;
    logits_of(m, w, x.unsqueeze(0), seen.hook());
    return seen;
  };
  inside.attention = [&m, seen_of,
                      labels = Inside{.inputs = inside.inputs, .outputs = inside.outputs}] {
    return layers_of(m, seen_of(), labels);
  };
  inside.rollout = [&m, seen_of] { return rolled_out(m, seen_of()); };
  inside.hooked = [&m, w, x = inside.x](const nn::HeadsHook& hook) {
    return log_softmax(logits_of(m, w, x.unsqueeze(0), hook).squeeze(1));
  };
  inside.held = [&m, w](const Tensor& rows) {
    const nn::HeadsHook hook = on_heads(models::interventions::held(), ".cross", nullptr);
    return log_odds_of(logits_of(m, w, rows, hook), w.out);
  };
  // Its looks are all heads of all layers that see the source; their mean is what is seen.
  inside.look = [&m, w, x = inside.x](const Intervention& how) {
    std::vector<Tensor> used;  // by layer, [H,T,S]
    const Tensor logits = logits_of(m, w, x.unsqueeze(0), on_heads(how, ".cross", &used));
    return explain::Seen{log_softmax(logits.squeeze(1)), mean(concatenate(used, 0), {0})};
  };
}

}  // namespace

Inside inside(const Translator& t, const std::string& line) {
  const NoGrad off;
  Written w{.source = encode_source(t.source, line), .in = {text::kBegin}, .out = {}};
  const std::vector<const std::vector<int64_t>*> rows = {&w.source};
  const Sources sources = pad_sources(rows);
  models::DecodeConfig greedy;
  greedy.places = looks(t.config);
  check_weights(w.source.size(), greedy);
  const models::Decoded d = decode(t.model, sources.ids, sources.lengths, greedy)[0][0];
  w.out = d.tokens;
  if (d.ended || w.out.empty()) w.out.push_back(text::kEnd);
  w.in.insert(w.in.end(), w.out.begin(), w.out.end() - 1);

  Inside inside;
  const std::vector<std::string> pieces = t.source.pieces(line);
  inside.inputs = shown_pieces(pieces);
  inside.outputs = pieces_of(t.target, d, pieces);
  inside.title = line + " → " + t.target.join(inside.outputs);
  inside.inputs.emplace_back(kEndMark);
  if (inside.outputs.size() < w.out.size()) inside.outputs.emplace_back(kEndMark);
  inside.named = [&t](int64_t id) { return id == text::kEnd ? kEndMark : t.target.token(id); };
  std::visit([&](const auto& m) { look_inside(m, w, inside); }, t.model);
  return inside;
}

}  // namespace fovea::tasks::translation
