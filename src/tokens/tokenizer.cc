#include "tokens/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>

#include "fovea/error.h"
#include "fovea/text.h"
#include "text/utf8.h"
#include "tokens/parts.h"

namespace fovea::tokens {
namespace {

using Parts = Tokenizer::Parts;

// ---- Words to tokens ----------------------------------------------------------------------------

// What the words of a text became, so that each is cut once: the last of those that fall into a
// place.
class WordCache {
 public:
  explicit WordCache(size_t bytes)
      : places_(std::clamp(std::bit_ceil(bytes / 8), size_t{16}, size_t{1} << 16)) {}
  static constexpr size_t kLongest = 48;  // bytes

  struct Place {
    std::string_view word;
    uint32_t begin = 0, count = 0;  // among the cuts
  };
  Place& at(std::string_view word) {
    return places_[std::hash<std::string_view>{}(word) & (places_.size() - 1)];
  }

 private:
  std::vector<Place> places_;
};

// A long word is cut where that changes no token: words are read once, and merges stay short.
std::vector<Span> apart(const Model& model, std::string_view text, std::vector<Span> words) {
  const Bpe* bpe = std::get_if<Bpe>(&model);
  if (bpe == nullptr || bpe->takes_bytes()) return words;
  std::vector<Span> all;
  for (Span word : words) {
    size_t at = word.begin + 1;
    while ((at = text.find(kMark, at)) < word.end) {
      if (bpe->parts_at(text[at - 1])) {
        all.push_back({word.begin, static_cast<uint32_t>(at)});
        word.begin = static_cast<uint32_t>(at);
      }
      at += kMark.size();
    }
    all.push_back(word);
  }
  return all;
}

bool is_blank(std::string_view piece, size_t& at) {
  const char32_t c = next_code(piece, at);
  return c == spelled_byte(' ') || is_white(c);
}

// How many spaces a piece begins and ends with.
void count_blanks(std::string_view piece, SpacedToken& written) {
  size_t at = 0;
  while (at < piece.size() && is_blank(piece, at)) ++written.blanks_before;
  for (size_t end = piece.size(); end > 0;) {
    size_t begin = end - 1;
    while (continues(piece[begin])) --begin;
    end = begin;
    if (!is_blank(piece, begin)) break;
    ++written.blanks_after;
  }
}

class Encoder {
 public:
  Encoder(const Parts& parts, std::string_view given) : parts_(parts), sequence_{given, {}} {}

  Sequence encode() && {
    const Traced whole = traced(sequence_.given);
    each_between(whole, AddedTokens::Stage::raw, [&](Traced part) {
      if (parts_.normalizer) parts_.normalizer(part);
      each_between(part, AddedTokens::Stage::normalized,
                   [&](Traced plain) { put_words(std::move(plain)); });
    });
    return std::move(sequence_);
  }

 private:
  // Puts the added tokens of this stage; take() gets what lies between them.
  template <class Take>
  void each_between(const Traced& t, AddedTokens::Stage stage, Take&& take) {
    size_t taken = 0;
    for (const AddedTokens::Match& match : parts_.added.find(t.text, stage)) {
      if (taken < match.begin) take(t.slice(taken, match.begin));
      put({static_cast<uint32_t>(match.token->id), 0, 0}, t.origin(match.begin, match.end),
          std::string_view(t.text).substr(match.begin, match.end - match.begin));
      taken = match.end;
    }
    if (taken < t.text.size()) take(taken == 0 ? t : t.slice(taken, t.text.size()));
  }

  void put(Cut cut, Span origin, std::string_view piece) {
    SpacedToken written{.token = {.id = cut.id, .begin = origin.begin, .end = origin.end}};
    if (parts_.post_processor) count_blanks(piece, written);
    sequence_.tokens.push_back(written);
  }

  void put_words(Traced plain) {
    const auto size = static_cast<uint32_t>(plain.text.size());
    Split split{std::move(plain), {}};
    if (size > 0) split.words = {{0, size}};
    if (parts_.pre_tokenizer.apply) parts_.pre_tokenizer.apply(split);
    const std::string_view text = split.traced.text;
    split.words = apart(parts_.model, text, std::move(split.words));
    WordCache cache(split.words.size() < 16 ? 0 : text.size());
    cuts_.clear();
    for (const Span& word : split.words) {
      const std::string_view bytes = text.substr(word.begin, word.end - word.begin);
      const WordCache::Place found = cut(bytes, cache);
      for (uint32_t i = found.begin; i < found.begin + found.count; ++i) {
        put_cut(split.traced, word, cuts_[i]);
      }
    }
  }

  WordCache::Place cut(std::string_view word, WordCache& cache) {
    const bool kept = word.size() <= WordCache::kLongest;
    WordCache::Place& place = cache.at(word);
    if (kept && place.word == word) return place;
    const auto begin = static_cast<uint32_t>(cuts_.size());
    std::visit([&](const auto& model) { model.cut(word, cuts_); }, parts_.model);
    const WordCache::Place made{word, begin, static_cast<uint32_t>(cuts_.size()) - begin};
    if (kept) place = made;
    return made;
  }

  void put_cut(const Traced& t, Span word, const Cut& cut) {
    // What a vocabulary without an unknown token leaves out shifts the places behind it, as in the
    // reference; beyond the word they count from its own beginning.
    const size_t begin = word.begin + cut.begin, end = word.begin + cut.end;
    const Span origin =
        end > word.end ? Span{cut.begin, cut.end}
        : begin == end ? Span{t.origin(begin, begin + 1).begin, t.origin(begin, begin + 1).begin}
                       : t.origin(begin, end);
    put(cut, origin, parts_.pieces->piece(cut.id));
  }

  const Parts& parts_;
  Sequence sequence_;
  std::vector<Cut> cuts_;
};

std::vector<Token> finish(const Parts& parts, std::vector<Sequence> all, Specials specials) {
  for (size_t i = 0; i < all.size(); ++i) {
    for (SpacedToken& written : all[i].tokens) written.token.type = static_cast<int64_t>(i);
  }
  if (parts.post_processor) parts.post_processor(all, specials);
  std::vector<Token> tokens;
  for (const Sequence& sequence : all) {
    for (const SpacedToken& written : sequence.tokens) tokens.push_back(written.token);
  }
  return tokens;
}

// Bytes that people can read: what is no UTF-8, and controls, by their numbers.
std::string visible_bytes(std::string_view bytes) {
  std::string shown;
  for (size_t at = 0; at < bytes.size();) {
    const text::CodePoint c = text::code_point(bytes, at);
    const std::string_view here = bytes.substr(at, c.bytes);
    at += c.bytes;
    if (c.valid && c.code >= 0x20 && c.code != 0x7F) {
      shown += here;
    } else if (c.code == '\n' || c.code == '\t' || c.code == '\r') {
      shown += c.code == '\n' ? "\\n" : c.code == '\t' ? "\\t" : "\\r";
    } else {
      for (const char byte : here) {
        shown += fmt::format("\\x{:02X}", static_cast<unsigned char>(byte));
      }
    }
  }
  return shown;
}

}  // namespace

std::vector<Token> Tokenizer::encode(std::string_view text, Specials specials) const {
  std::vector<Sequence> all;
  all.push_back(Encoder(*parts_, text).encode());
  return finish(*parts_, std::move(all), specials);
}

std::vector<Token> Tokenizer::encode_pair(std::string_view a, std::string_view b,
                                          Specials specials) const {
  std::vector<Sequence> all;
  all.push_back(Encoder(*parts_, a).encode());
  all.push_back(Encoder(*parts_, b).encode());
  return finish(*parts_, std::move(all), specials);
}

std::string Tokenizer::decode(std::span<const int64_t> ids, KeptTokens kept) const {
  std::vector<std::string> texts;
  texts.reserve(ids.size());
  for (const int64_t id : ids) {
    if (parts_->added.by_id(id) == nullptr && !parts_->pieces->has(id)) continue;
    if (kept == KeptTokens::words && special(id)) continue;
    texts.emplace_back(piece(id));
  }
  parts_->decoder(texts);
  std::string whole;
  for (const std::string& text : texts) whole += text;
  return whole;
}

std::string_view Tokenizer::piece(int64_t id) const {
  const AddedToken* added = parts_->added.by_id(id);
  return added != nullptr ? std::string_view(added->content) : parts_->pieces->piece(id);
}

std::string Tokenizer::shown(int64_t id) const {
  std::string text(piece(id));
  if (parts_->added.by_id(id) != nullptr) return visible_bytes(text);
  std::string bytes;
  if (parts_->pre_tokenizer.byte_level && bytes_of_spelled(text, bytes))
    return visible_bytes(bytes);
  if (!parts_->pre_tokenizer.byte_level) replace_each(text, kMark, " ");
  return visible_bytes(text);
}

std::optional<int64_t> Tokenizer::id(std::string_view piece) const {
  if (const AddedToken* added = parts_->added.by_content(piece); added != nullptr) return added->id;
  const auto found = parts_->pieces->find(piece);
  return found ? std::optional<int64_t>(*found) : std::nullopt;
}

int64_t Tokenizer::size() const { return std::max(parts_->pieces->end(), parts_->added.end()); }

bool Tokenizer::special(int64_t id) const { return parts_->added.special(piece(id)); }

const SpecialIds& Tokenizer::special_ids() const { return parts_->special_ids; }

std::string Tokenizer::about() const {
  return fmt::format("{}, {} tokens", parts_->kind,
                     parts_->pieces->count() + parts_->added.beyond(*parts_->pieces));
}

}  // namespace fovea::tokens
