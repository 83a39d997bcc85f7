#include "tasks/inside.h"

#include <algorithm>

#include "fovea/error.h"
#include "fovea/ops.h"
#include "tasks/transformer_inside.h"
#include "tasks/translate/data.h"
#include "tasks/translate/translate.h"

namespace fovea::tasks::translation {
namespace {

using models::Intervention;

Tensor column(const std::vector<int64_t>& ids, int64_t rows) {  // [L,R]
  const auto L = static_cast<int64_t>(ids.size());
  return Tensor::from_ids(ids, {L, 1}).expand({L, rows}).contiguous();
}
Tensor lengths_of(const ForcedTranslation& w, int64_t rows) {
  const std::vector<int64_t> all(static_cast<size_t>(rows), static_cast<int64_t>(w.source.size()));
  return Tensor::from_ids(all, {rows});
}

// Rows [R,S,E] → [T,R,V].
Tensor logits_of(const models::Seq2Seq& m, const ForcedTranslation& w, const Tensor& rows,
                 const Intervention& how) {
  const int64_t R = rows.size(0);
  return models::logits(m, {rows.transpose(0, 1), lengths_of(w, R), column(w.in, R)}, how);
}

void look_inside(const models::Seq2Seq& m, const ForcedTranslation& w, Inside& inside) {
  inside.x = m.source(Tensor::from_ids(w.source, {static_cast<int64_t>(w.source.size())})).detach();
  inside.blank = mean_vector(m.source.table);
  inside.log_odds = [&m, w](const Tensor& rows) {
    return log_odds_of(logits_of(m, w, rows, Intervention()), w.out);
  };
  inside.targets = w.out;
  inside.states = [&m, w](const Tensor& rows, const models::TransformerPass&) {
    return logits_of(m, w, rows, Intervention()).transpose(0, 1);
  };
  inside.said = [](const Tensor& logits) { return logits; };
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
    return std::vector<LayerSeen>{
        layer_of_weights("look", look({}).weights.unsqueeze(0), outputs, inputs)};
  };
}

void look_inside(const models::Transformer& m, const ForcedTranslation& w, Inside& inside) {
  look_inside_translator(m, w, inside);
}

}  // namespace

Inside inside(const Translator& t, const std::string& line) {
  const NoGrad off;
  ForcedTranslation w{.source = encode_source(t.source, line), .in = {t.special.begin}, .out = {}};
  const std::vector<const std::vector<int64_t>*> rows = {&w.source};
  const Sources sources = pad_sources(rows);
  models::DecodeConfig greedy;
  greedy.special = t.special;
  if (const int64_t most = t.source.longest(); most > 0) {
    greedy.longest = std::min(most, 2 * static_cast<int64_t>(w.source.size()) + 10);
  }
  greedy.places = t.origin || looks(t.config);
  check_weights(w.source.size(), greedy);
  const models::Decoded d = decode(t.model, sources.ids, sources.lengths, greedy)[0][0];
  w.out = d.tokens;
  if (d.ended || w.out.empty()) w.out.push_back(t.special.ends.front());
  w.in.insert(w.in.end(), w.out.begin(), w.out.end() - 1);

  Inside inside;
  const std::vector<std::string> pieces = source_pieces(t.source, line);
  inside.inputs = shown_pieces(pieces);
  inside.outputs = pieces_of(t.target, d, pieces);
  inside.title = line + " → " +
                 (t.target.own() != nullptr ? t.target.own()->join(inside.outputs)
                                            : t.target.decode(d.tokens));
  if (t.source.own() != nullptr) inside.inputs.emplace_back(kEndMark);
  if (inside.outputs.size() < w.out.size()) inside.outputs.emplace_back(kEndMark);
  inside.named = [&t](int64_t id) {
    return id == t.special.ends.front() ? kEndMark : t.target.token(id);
  };
  std::visit([&](const auto& m) { look_inside(m, w, inside); }, t.model);
  return inside;
}

}  // namespace fovea::tasks::translation
