#include <fmt/format.h>

#include "fovea/error.h"
#include "text/messages.h"
#include "tokens/characters.h"
#include "tokens/models.h"

namespace fovea::tokens {
std::vector<Trie::Entry> entries_of(const Pieces& pieces) {
  std::vector<Trie::Entry> all;
  all.reserve(pieces.count());
  for (int64_t id = 0; id < pieces.end(); ++id) {
    if (pieces.has(id)) all.emplace_back(pieces.piece(id), static_cast<uint32_t>(id));
  }
  return all;
}

WordPiece::WordPiece(std::shared_ptr<const Pieces> pieces, WordPieceSettings settings)
    : pieces_(std::move(pieces)), settings_(std::move(settings)), trie_(entries_of(*pieces_)) {
  inside_ = Trie::kRoot;
  for (const char c : settings_.continuing_prefix) {
    if (inside_ != Trie::kNone) inside_ = trie_.child(inside_, c);
  }
}

uint32_t WordPiece::longest(uint32_t node, std::string_view rest, size_t& bytes) const {
  uint32_t id = Trie::kNone;
  for (size_t i = 0; i < rest.size() && node != Trie::kNone; ++i) {
    node = trie_.child(node, rest[i]);
    if (node != Trie::kNone && trie_.value(node) != Trie::kNone) {
      id = trie_.value(node), bytes = i + 1;
    }
  }
  return id;
}

void WordPiece::cut(std::string_view word, std::vector<Cut>& cuts) const {
  const size_t before = cuts.size();
  int64_t characters = 0;
  for (const char c : word) characters += !continues(c);
  bool known = characters <= settings_.most_characters;
  for (size_t at = 0; known && at < word.size();) {
    size_t bytes = 0;
    const uint32_t id = longest(at == 0 ? Trie::kRoot : inside_, word.substr(at), bytes);
    known = id != Trie::kNone;
    cuts.push_back({id, static_cast<uint32_t>(at), static_cast<uint32_t>(at + bytes)});
    at += bytes;
  }
  if (known) return;
  cuts.resize(before);
  const auto unknown = pieces_->find(settings_.unknown);
  if (!unknown) {
    throw Error("encode", fmt::format("the vocabulary has no token for this text, and its unknown "
                                      "one, {}, is missing",
                                      text::quoted_piece(settings_.unknown)));
  }
  cuts.push_back({*unknown, 0, static_cast<uint32_t>(word.size())});
}

}  // namespace fovea::tokens
