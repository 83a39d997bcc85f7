#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <queue>

#include "fovea/error.h"
#include "text/messages.h"
#include "tokens/characters.h"
#include "tokens/models.h"
#include "tokens/pre_tokenizers.h"

namespace fovea::tokens {
namespace {

// Words of up to so many symbols are gone through again for every merge; the queue of longer ones
// costs more than that.
constexpr size_t kFew = 24;

uint64_t pair_of(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }

size_t slot_of(uint64_t pair, size_t mask) {
  return static_cast<size_t>((pair * 0x9E3779B97F4A7C15u) >> 32) & mask;
}

uint32_t id_of(const Pieces& pieces, const std::string& piece) {
  const auto id = pieces.find(piece);
  if (!id) {
    throw Error("read_tokenizer", fmt::format("a merge has {}, which the vocabulary has not",
                                              text::quoted_piece(piece)));
  }
  return *id;
}

}  // namespace

std::string byte_piece(unsigned char byte) { return fmt::format("<0x{:02X}>", byte); }

Bpe::Bpe(std::shared_ptr<const Pieces> pieces, const Merges& merges, BpeSettings settings,
         bool bytes)
    : pieces_(std::move(pieces)), settings_(std::move(settings)) {
  const bool plain = settings_.continuing_prefix.empty() && settings_.end_suffix.empty();
  takes_bytes_ = bytes && plain;
  for (unsigned b = 0; b < 256; ++b) {
    const auto byte = static_cast<unsigned char>(b);
    const auto id = pieces_->find(bytes ? utf8_of(spelled_byte(byte)) : byte_piece(byte));
    byte_ids_[b] = id.value_or(kNone);
    takes_bytes_ = takes_bytes_ && id.has_value();
  }
  if (takes_bytes_ && settings_.ignore_merges) {
    std::string spelled;
    for (int64_t id = 0; id < pieces_->end(); ++id) {
      if (pieces_->has(id) && bytes_of_spelled(pieces_->piece(id), spelled)) {
        spelled_.add(spelled, id);
      }
    }
  }
  size_t slots = 16;
  while (slots < 2 * merges.size()) slots *= 2;
  merges_.resize(slots);
  const size_t prefix = settings_.continuing_prefix.size();
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    const uint32_t a = id_of(*pieces_, left), b = id_of(*pieces_, right);
    const std::string both = left + right.substr(std::min(prefix, right.size()));
    add_merge(a, b, static_cast<uint32_t>(rank), id_of(*pieces_, both));
  }
  find_parts();
}

void Bpe::add_merge(uint32_t left, uint32_t right, uint32_t rank, uint32_t id) {
  const uint64_t pair = pair_of(left, right);
  const size_t mask = merges_.size() - 1;
  size_t at = slot_of(pair, mask);
  while (merges_[at].rank != kNone && merges_[at].pair != pair) at = (at + 1) & mask;
  merges_[at] = {pair, rank, id};
}

const Bpe::Merge* Bpe::merge_of(uint32_t left, uint32_t right) const {
  const uint64_t pair = pair_of(left, right);
  const size_t mask = merges_.size() - 1;
  for (size_t at = slot_of(pair, mask); merges_[at].rank != kNone; at = (at + 1) & mask) {
    if (merges_[at].pair == pair) return &merges_[at];
  }
  return nullptr;
}

// A merge over a place "x▁" makes a piece that has it inside. Symbols whose piece is not their text
// (<0x0A>, <unk>) spoil that: none may stand before ▁ in a piece.
void Bpe::find_parts() {
  const bool nothing_is_lost =
      (settings_.unknown && pieces_->find(*settings_.unknown)) ||
      (settings_.byte_fallback && std::none_of(std::begin(byte_ids_), std::end(byte_ids_),
                                               [](uint32_t id) { return id == kNone; }));
  const bool plain = settings_.continuing_prefix.empty() && settings_.end_suffix.empty();
  if (takes_bytes_ || settings_.ignore_merges || !plain || !nothing_is_lost ||
      !pieces_->find(kMark)) {
    return;
  }
  std::fill(std::begin(parts_), std::end(parts_), true);
  for (int64_t id = 0; id < pieces_->end(); ++id) {
    const std::string_view piece = pieces_->piece(id);
    for (size_t at = 1; (at = piece.find(kMark, at)) != piece.npos; ++at) {
      parts_[static_cast<unsigned char>(piece[at - 1])] = false;
    }
  }
  const char last = settings_.unknown ? settings_.unknown->back() : '>';
  if (!parts_at('>') || !parts_at(last)) std::fill(std::begin(parts_), std::end(parts_), false);
}

uint32_t Bpe::unknown_id() const {
  const auto id = pieces_->find(*settings_.unknown);
  if (id) return *id;
  throw Error("encode", fmt::format("the vocabulary has no token for this text, and its unknown "
                                    "one, {}, is missing",
                                    text::quoted_piece(*settings_.unknown)));
}

bool Bpe::put_bytes(std::string_view character, std::vector<Symbol>& symbols) const {
  const auto missing = [&](char c) { return byte_ids_[static_cast<unsigned char>(c)] == kNone; };
  if (std::any_of(character.begin(), character.end(), missing)) return false;
  for (const char c : character) {
    symbols.push_back({.id = byte_ids_[static_cast<unsigned char>(c)], .bytes = 1});
  }
  return true;
}

std::vector<Bpe::Symbol> Bpe::symbols_of(std::string_view word) const {
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  if (takes_bytes_) {
    put_bytes(word, symbols);
    return symbols;
  }
  std::optional<Symbol> unknown;
  const auto put_unknown = [&] {
    if (unknown) symbols.push_back(*unknown);
    unknown.reset();
  };
  std::string spelled;
  for (size_t at = 0; at < word.size();) {
    const size_t begin = at;
    next_code(word, at);
    const auto bytes = static_cast<uint32_t>(at - begin);
    std::string_view s = word.substr(begin, bytes);
    if (!settings_.continuing_prefix.empty() || !settings_.end_suffix.empty()) {
      spelled = (begin > 0 ? settings_.continuing_prefix : "") + std::string(s) +
                (at == word.size() ? settings_.end_suffix : "");
      s = spelled;
    }
    if (const auto id = pieces_->find(s); id) {
      put_unknown();
      symbols.push_back({.id = *id, .bytes = bytes});
    } else if (settings_.byte_fallback && put_bytes(s, symbols)) {
      // An unknown character before these stays behind them, as in the reference.
    } else if (settings_.unknown) {
      if (unknown && settings_.fuse_unknown) {
        unknown->bytes += bytes;
      } else {
        put_unknown();
        unknown = {.id = unknown_id(), .bytes = bytes};
      }
    }
  }
  put_unknown();
  return symbols;
}

void Bpe::merge_few(std::vector<Symbol>& symbols) const {
  const Merge* next[kFew];
  size_t n = symbols.size();
  for (size_t i = 0; i + 1 < n; ++i) next[i] = merge_of(symbols[i].id, symbols[i + 1].id);
  while (n > 1) {
    size_t best = n;
    uint32_t rank = kNone;
    for (size_t i = 0; i + 1 < n; ++i) {
      if (next[i] != nullptr && next[i]->rank < rank) best = i, rank = next[i]->rank;
    }
    if (best == n) break;
    symbols[best].id = next[best]->id;
    symbols[best].bytes += symbols[best + 1].bytes;
    for (size_t i = best + 1; i + 1 < n; ++i) symbols[i] = symbols[i + 1], next[i] = next[i + 1];
    --n;
    if (best > 0) next[best - 1] = merge_of(symbols[best - 1].id, symbols[best].id);
    if (best + 1 < n) next[best] = merge_of(symbols[best].id, symbols[best + 1].id);
  }
  symbols.resize(n);
}

void Bpe::merge_many(std::vector<Symbol>& symbols) const {
  struct Candidate {
    uint32_t rank, at, left, right, id;
    bool operator<(const Candidate& o) const {  // the largest comes first out of the queue
      return rank != o.rank ? rank > o.rank : at > o.at;
    }
  };
  std::vector<Candidate> found;
  const auto candidate = [&](uint32_t at) -> std::optional<Candidate> {
    const uint32_t a = symbols[at].id, b = symbols[symbols[at].right].id;
    const Merge* m = merge_of(a, b);
    if (m == nullptr) return {};
    return Candidate{m->rank, at, a, b, m->id};
  };
  for (uint32_t i = 0; i < symbols.size(); ++i) {
    symbols[i].left = i == 0 ? kNone : i - 1;
    symbols[i].right = i + 1 < symbols.size() ? i + 1 : kNone;
  }
  for (uint32_t i = 0; i + 1 < symbols.size(); ++i) {
    if (const auto c = candidate(i); c) found.push_back(*c);
  }
  std::priority_queue<Candidate> queue({}, std::move(found));
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    Symbol& left = symbols[top.at];
    if (left.bytes == 0 || left.id != top.left || left.right == kNone) continue;
    Symbol& right = symbols[left.right];
    if (right.id != top.right) continue;
    left.id = top.id;
    left.bytes += right.bytes;
    right.bytes = 0;  // gone
    left.right = right.right;
    if (left.right != kNone) symbols[left.right].left = top.at;
    if (left.left != kNone) {
      if (const auto c = candidate(left.left); c) queue.push(*c);
    }
    if (left.right != kNone) {
      if (const auto c = candidate(top.at); c) queue.push(*c);
    }
  }
  std::erase_if(symbols, [](const Symbol& s) { return s.bytes == 0; });
}

void Bpe::cut(std::string_view word, std::vector<Cut>& cuts) const {
  if (settings_.ignore_merges) {
    if (const auto id = (takes_bytes_ ? spelled_ : *pieces_).find(word); id) {
      cuts.push_back({*id, 0, static_cast<uint32_t>(word.size())});
      return;
    }
  }
  std::vector<Symbol> symbols = symbols_of(word);
  if (symbols.size() <= kFew) {
    merge_few(symbols);
  } else {
    merge_many(symbols);
  }
  uint32_t at = 0;
  for (const Symbol& s : symbols) {
    cuts.push_back({s.id, at, at + s.bytes});
    at += s.bytes;
  }
}

}  // namespace fovea::tokens
