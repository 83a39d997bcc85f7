#include "tasks/inside.h"

#include <algorithm>

#include "fovea/error.h"
#include "fovea/ops.h"
#include "tasks/lm/lm.h"

namespace fovea::tasks::lm {
namespace {

constexpr const char* kEndOfLine = "⏎";

// The text's own pieces, unknown ones too: as many as encode_prompt() gives ids.
std::vector<std::string> pieces_of(const LanguageModel& m, const Tokens& ids,
                                   const std::string& text) {
  std::vector<std::string> own;
  for (size_t at = 0, end = 0; at <= text.size(); at = end + 1) {
    end = std::min(text.find('\n', at), text.size());
    for (std::string& piece : m.tokenizer.pieces(text.substr(at, end - at))) {
      own.push_back(std::move(piece));
    }
    if (end < text.size()) own.emplace_back(kEndOfLine);
  }
  std::vector<std::string> shown;
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool unknown = ids[i] == text::kUnknown && i < own.size();
    shown.push_back(ids[i] == text::kEnd ? kEndOfLine
                    : unknown            ? own[i]
                                         : m.tokenizer.token(ids[i]));
  }
  return shown;
}

Tensor logits_of(const models::Transformer& m, const Tensor& rows, const nn::HeadsHook& hook) {
  return m.output(models::decode_embedded(m, rows, {}, {.hook = hook})).transpose(0, 1);
}

}  // namespace

Inside inside(const LanguageModel& lm, const std::string& text) {
  const NoGrad off;
  Tokens ids = encode_prompt(lm.tokenizer, text);
  std::vector<std::string> pieces = pieces_of(lm, ids, text);
  if (ids.empty()) throw Error("explain", "there is no text to look at");
  const auto most = static_cast<size_t>(lm.config.context);
  if (ids.size() > most) {
    const auto past = static_cast<ptrdiff_t>(ids.size() - most);
    ids.erase(ids.begin(), ids.begin() + past);
    pieces.erase(pieces.begin(), pieces.begin() + past);
  }
  const models::Transformer& m = lm.model;
  Inside inside{.title = text, .inputs = pieces};
  inside.x = m.target(Tensor::from_ids(ids, {static_cast<int64_t>(ids.size())})).detach();
  inside.blank = mean_vector(m.target.table);

  const Tensor last = logits_of(m, inside.x.unsqueeze(0), {}).select(1, 0);  // [L,V]
  const int64_t next = argmax(last.select(0, last.size(0) - 1), 0).to_ids()[0];
  Tokens out(ids.begin() + 1, ids.end());
  out.push_back(next);
  inside.outputs.assign(pieces.begin() + 1, pieces.end());
  inside.outputs.push_back(next == text::kEnd ? kEndOfLine : lm.tokenizer.token(next));
  inside.log_odds = [&m, out](const Tensor& rows) {
    return log_odds_of(logits_of(m, rows, {}), out);
  };
  if (m.config.linear) return inside;  // its weights are never computed

  const auto seen_of = [&m, x = inside.x] {
    const NoGrad none;
    HeadsSeen seen;
    logits_of(m, x.unsqueeze(0), seen.hook());
    return seen;
  };
  inside.attention = [&m, seen_of, inputs = inside.inputs, outputs = inside.outputs] {
    const HeadsSeen seen = seen_of();
    std::vector<LayerSeen> layers;
    for (auto b = m.decoder.blocks.rbegin(); b != m.decoder.blocks.rend(); ++b) {
      layers.push_back({b->self.name, seen.named(b->self.name), outputs, inputs});
    }
    return layers;
  };
  inside.hooked = [&m, x = inside.x](const nn::HeadsHook& hook) {
    return log_softmax(logits_of(m, x.unsqueeze(0), hook).squeeze(1));
  };
  inside.named = [&lm](int64_t id) {
    return id == text::kEnd ? kEndOfLine : lm.tokenizer.token(id);
  };
  inside.rollout = [&m, seen_of] {
    const HeadsSeen seen = seen_of();
    std::vector<Tensor> layers;
    for (const nn::Block& b : m.decoder.blocks) layers.push_back(seen.named(b.self.name));
    return explain::rollout(layers);
  };
  return inside;
}

}  // namespace fovea::tasks::lm
