#include "tokens/added.h"

#include <fmt/format.h>

#include <algorithm>

#include "fovea/error.h"
#include "text/messages.h"

namespace fovea::tokens {
namespace {

constexpr size_t kMaxContent = 4096;  // bytes: places are found in so many steps each

bool is_word(char32_t c) { return classes()(c) & kWord; }

char32_t code_before(std::string_view text, size_t& at) {
  --at;
  while (continues(text[at])) --at;
  size_t again = at;
  return next_code(text, again);
}

bool ends_with_word(std::string_view text) {
  size_t at = text.size();
  return at > 0 && is_word(code_before(text, at));
}

bool starts_with_word(std::string_view text) {
  size_t at = 0;
  return !text.empty() && is_word(next_code(text, at));
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> given, const Pieces& pieces,
                         const Normalizer& normalizer) {
  int64_t next = static_cast<int64_t>(pieces.count());
  for (AddedToken& token : given) {
    if (token.content.empty()) continue;
    if (token.content.size() > kMaxContent) {
      throw Error("read_tokenizer", fmt::format("an added token has {} bytes, more than {}",
                                                token.content.size(), kMaxContent));
    }
    const auto known = pieces.find(token.content);
    const AddedToken* before = by_content(token.content);
    const int64_t id = before != nullptr ? before->id : known ? int64_t{*known} : next;
    if (id != token.id) {
      throw Error("read_tokenizer",
                  fmt::format("the added token {} has the id {}, but its place is {}",
                              text::quoted_piece(token.content), token.id, id));
    }
    if (token.special) special_.insert(token.content);
    if (before != nullptr) {
      tokens_[by_content_[token.content]] = std::move(token);
      continue;
    }
    next = std::max(next, id + 1);
    by_content_[token.content] = tokens_.size();
    by_id_[token.id] = tokens_.size();
    tokens_.push_back(std::move(token));
  }
  std::vector<Trie::Entry> raw, normalized;
  std::vector<std::string> contents;  // normalized
  contents.reserve(tokens_.size());
  for (uint32_t i = 0; i < tokens_.size(); ++i) {
    if (!tokens_[i].normalized) {
      raw.emplace_back(tokens_[i].content, i);
      continue;
    }
    Traced content = traced(tokens_[i].content);
    if (normalizer) normalizer(content);
    contents.push_back(std::move(content.text));
    normalized.emplace_back(contents.back(), i);
  }
  std::reverse(normalized.begin(), normalized.end());  // of those that become alike, the first
  raw_ = Trie(std::move(raw));
  normalized_ = Trie(std::move(normalized));
}

bool AddedTokens::fits(std::string_view text, Match& match, size_t taken) const {
  const AddedToken& token = *match.token;
  if (token.single_word &&
      (ends_with_word(text.substr(0, match.begin)) || starts_with_word(text.substr(match.end)))) {
    return false;
  }
  if (token.lstrip) {
    size_t begin = match.begin;
    while (begin > taken) {
      size_t before = begin;
      if (!is_white(code_before(text, before))) break;
      begin = before;
    }
    match.begin = std::max(begin, taken);
  }
  while (token.rstrip && match.end < text.size()) {
    size_t after = match.end;
    if (!is_white(next_code(text, after))) break;
    match.end = after;
  }
  return true;
}

std::vector<AddedTokens::Match> AddedTokens::find(std::string_view text, Stage stage) const {
  const Trie& trie = stage == Stage::raw ? raw_ : normalized_;
  std::vector<Match> all;
  size_t taken = 0;
  for (size_t at = 0; at < text.size();) {
    if (trie.child(Trie::kRoot, text[at]) == Trie::kNone) {
      ++at;
      continue;
    }
    Match longest{at, at, nullptr};
    trie.prefixes(text.substr(at), [&](size_t bytes, uint32_t token) {
      longest = {at, at + bytes, &tokens_[token]};
    });
    if (longest.token == nullptr) {
      ++at;
      continue;
    }
    at = longest.end;
    if (!fits(text, longest, taken)) continue;
    taken = longest.end;
    all.push_back(longest);
  }
  return all;
}

const AddedToken* AddedTokens::by_id(int64_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

const AddedToken* AddedTokens::by_content(std::string_view content) const {
  const auto found = by_content_.find(std::string(content));
  return found == by_content_.end() ? nullptr : &tokens_[found->second];
}

int64_t AddedTokens::end() const {
  int64_t end = 0;
  for (const AddedToken& token : tokens_) end = std::max(end, token.id + 1);
  return end;
}

size_t AddedTokens::beyond(const Pieces& pieces) const {
  return static_cast<size_t>(
      std::count_if(tokens_.begin(), tokens_.end(),
                    [&](const AddedToken& token) { return !pieces.has(token.id); }));
}

}  // namespace fovea::tokens
