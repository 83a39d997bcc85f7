#include "tasks/inside.h"

#include <algorithm>

#include "fovea/error.h"
#include "fovea/ops.h"
#include "tasks/lm/lm.h"
#include "tasks/transformer_inside.h"

namespace fovea::tasks::lm {
namespace {

// The text's own pieces, unknown ones too: as many as encode_prompt() gives ids.
std::vector<std::string> pieces_of(const LanguageModel& m, const Tokens& ids,
                                   const std::string& text) {
  std::vector<std::string> own;
  const text::Tokenizer* tokenizer = m.tokenizer.own();
  if (tokenizer == nullptr) {
    for (const int64_t id : ids) own.push_back(m.label(id));
    return own;
  }
  for (size_t at = 0, end = 0; at <= text.size(); at = end + 1) {
    end = std::min(text.find('\n', at), text.size());
    for (std::string& piece : tokenizer->pieces(text.substr(at, end - at))) {
      own.push_back(std::move(piece));
    }
    if (end < text.size()) own.push_back(m.label(text::kEnd));
  }
  std::vector<std::string> shown;
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool unknown = ids[i] == text::kUnknown && i < own.size();
    shown.push_back(unknown ? own[i] : m.label(ids[i]));
  }
  return shown;
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
  const auto L = static_cast<int64_t>(ids.size());
  const Tensor states = models::decode_all(m, Tensor::from_ids(ids, {1, L}));
  const Tensor last = states.select(1, states.size(1) - 1);  // [1,W]
  const int64_t next = argmax(models::logits(m, last), 1).to_ids()[0];
  Tokens out(ids.begin() + 1, ids.end());
  out.push_back(next);
  inside.named = [&lm](int64_t id) { return lm.label(id); };
  inside.outputs.assign(pieces.begin() + 1, pieces.end());
  inside.outputs.push_back(inside.named(next));
  look_inside_decoder(m, ids, out, inside);
  return inside;
}

}  // namespace fovea::tasks::lm
