#include "tasks/coder.h"

#include <fmt/format.h>

namespace fovea::tasks {

std::string label_of(const tokens::Tokenizer& t, int64_t id) {
  std::string shown = t.shown(id);
  if (shown.starts_with(' ')) shown.replace(0, 1, "␣");
  if (shown == "\n") shown = "⏎";
  return shown.empty() ? fmt::format("#{}", id) : shown;
}

int64_t Coder::size() const {
  return std::visit([](const auto& t) { return t.size(); }, of_);
}

std::vector<int64_t> Coder::encode(std::string_view text, tokens::Specials around) const {
  if (own() != nullptr) return own()->encode(text);
  std::vector<int64_t> ids;
  for (const tokens::Token& t : theirs()->encode(text, around)) ids.push_back(t.id);
  const auto most = static_cast<size_t>(longest_);
  if (longest_ == 0 || ids.size() <= most) return ids;
  size_t after = 0;  // special tokens at the end
  while (after < most && theirs()->special(ids[ids.size() - 1 - after])) ++after;
  ids.erase(ids.begin() + static_cast<ptrdiff_t>(most - after),
            ids.end() - static_cast<ptrdiff_t>(after));
  return ids;
}

std::string Coder::decode(std::span<const int64_t> ids) const {
  return own() != nullptr ? own()->decode(ids) : theirs()->decode(ids);
}

std::string Coder::token(int64_t id) const {
  return own() != nullptr ? own()->token(id) : label_of(*theirs(), id);
}

bool Coder::is_unknown(int64_t id) const {
  return own() != nullptr ? id == text::kUnknown : theirs()->special_ids().unknown == id;
}

std::vector<int64_t> Coder::never() const {
  if (own() != nullptr) return {text::kPad, text::kUnknown, text::kBegin};
  std::vector<int64_t> ids;
  for (int64_t id = 0; id < theirs()->size(); ++id) {
    if (theirs()->special(id)) ids.push_back(id);
  }
  return ids;
}

}  // namespace fovea::tasks
