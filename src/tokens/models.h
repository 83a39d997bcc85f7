#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/sentence_pieces.h"
#include "tokens/pieces.h"
#include "tokens/trie.h"

// Models that cut a word into tokens. Each is a value, and cut() may be called by many threads.
namespace fovea::tokens {

// A token of a word: bytes [begin, end) of it.
struct Cut {
  uint32_t id;
  uint32_t begin, end;
};

// ---- Byte pairs ---------------------------------------------------------------------------------

struct BpeSettings {
  std::optional<std::string> unknown;
  std::string continuing_prefix, end_suffix;
  bool fuse_unknown = false, byte_fallback = false, ignore_merges = false;
};

// Of all neighbours that a merge joins, those of the earliest merge join first, from left to right.
class Bpe {
 public:
  using Merges = std::vector<std::pair<std::string, std::string>>;
  // `bytes`: the pieces spell bytes, and words come as bytes where every byte is a piece.
  Bpe(std::shared_ptr<const Pieces>, const Merges&, BpeSettings, bool bytes);

  bool takes_bytes() const { return takes_bytes_; }
  void cut(std::string_view word, std::vector<Cut>&) const;
  // Whether no merge ever joins what ends with byte `before` and what begins with ▁: there a word
  // may be cut in two, and its tokens stay the same.
  bool parts_at(char before) const { return parts_[static_cast<unsigned char>(before)]; }

 private:
  struct Merge {
    uint64_t pair = 0;
    uint32_t rank = kNone, id = 0;
  };
  struct Symbol {
    uint32_t id, bytes;
    uint32_t left, right;
  };
  static constexpr uint32_t kNone = static_cast<uint32_t>(-1);

  void add_merge(uint32_t left, uint32_t right, uint32_t rank, uint32_t id);
  const Merge* merge_of(uint32_t left, uint32_t right) const;
  void find_parts();
  std::vector<Symbol> symbols_of(std::string_view word) const;
  bool put_bytes(std::string_view character, std::vector<Symbol>&) const;
  uint32_t unknown_id() const;
  void merge_few(std::vector<Symbol>&) const;
  void merge_many(std::vector<Symbol>&) const;

  std::shared_ptr<const Pieces> pieces_;
  BpeSettings settings_;
  bool takes_bytes_ = false;
  Pieces spelled_;             // the pieces as bytes, where it takes them
  uint32_t byte_ids_[256];     // of single bytes, or of <0x00> …; kNone: there is none
  std::vector<Merge> merges_;  // a hash table, a power of two, at most half in use
  bool parts_[256] = {};
};

inline constexpr std::string_view kMark = "\xE2\x96\x81";  // ▁

// ---- Word pieces --------------------------------------------------------------------------------

struct WordPieceSettings {
  std::string unknown = "[UNK]", continuing_prefix = "##";
  int64_t most_characters = 100;
};

// The longest piece that the word begins with, then the longest with ## that goes on, and so on;
// where none does, all of the word is unknown.
class WordPiece {
 public:
  WordPiece(std::shared_ptr<const Pieces>, WordPieceSettings);
  void cut(std::string_view word, std::vector<Cut>&) const;

 private:
  uint32_t longest(uint32_t node, std::string_view rest, size_t& bytes) const;

  std::shared_ptr<const Pieces> pieces_;
  WordPieceSettings settings_;
  Trie trie_;
  uint32_t inside_ = Trie::kNone;  // the node of ##
};

// ---- Unigrams -----------------------------------------------------------------------------------

struct UnigramSettings {
  std::optional<int64_t> unknown;
  bool byte_fallback = false;
};

// The pieces whose scores have the largest sum (Viterbi). A character without a piece scores 10
// below the worst piece; a run of them is one token.
class Unigram {
 public:
  Unigram(std::shared_ptr<const Pieces>, std::vector<double> scores, UnigramSettings);
  void cut(std::string_view word, std::vector<Cut>&) const;

 private:
  void put_unknown(std::string_view whole, Cut, std::vector<Cut>&) const;

  std::shared_ptr<const Pieces> pieces_;
  std::vector<double> scores_;
  UnigramSettings settings_;
  Trie trie_;
  double unknown_score_ = 0;
};

// "<0x0A>"
std::string byte_piece(unsigned char);
std::vector<Trie::Entry> entries_of(const Pieces&);  // views into them

// ---- SentencePiece itself -----------------------------------------------------------------------

// Cuts by SentencePiece; the ids are its own, or those of a vocabulary that has its pieces
// (Marian).
class SpmModel {
 public:
  enum class Ids : uint8_t { own, of_vocabulary };
  SpmModel(std::shared_ptr<const text::SentencePieces>, std::shared_ptr<const Pieces>, Ids,
           std::string unknown);
  void cut(std::string_view text, std::vector<Cut>&) const;

 private:
  std::shared_ptr<const text::SentencePieces> model_;
  std::shared_ptr<const Pieces> pieces_;
  Ids ids_;
  uint32_t unknown_;
};

using Model = std::variant<Bpe, WordPiece, Unigram, SpmModel>;

}  // namespace fovea::tokens
