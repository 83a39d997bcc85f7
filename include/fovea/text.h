#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/api.h"

namespace fovea::text {

// ---- Tokens -------------------------------------------------------------------------------------

enum class Unit : uint8_t { characters, words, subwords };  // what a token is
FOVEA_API const char* name_of(Unit);
FOVEA_API Unit unit(const std::string& name);

// Ids that every vocabulary starts with.
enum : int64_t { kPad = 0, kUnknown = 1, kBegin = 2, kEnd = 3, kFirst = 4 };

struct TokenizerConfig {
  Unit unit = Unit::characters;
  int64_t size = 8000;    // at most, special ids included
  int64_t min_count = 1;  // rarer characters and words are unknown
};

// Text to ids and back. Characters are Unicode code points; words are split at spaces, with
// punctuation a token of its own that carries an unusual space beside it; subwords are byte pairs
// as SentencePiece learns and applies them. Invalid UTF-8 becomes U+FFFD.
class FOVEA_API Tokenizer {
 public:
  static Tokenizer train(const TokenizerConfig&, std::span<const std::string> lines);
  static Tokenizer load(const std::filesystem::path&);
  void save(const std::filesystem::path&) const;  // one file, whole or not at all

  Unit unit() const;
  int64_t size() const;
  std::vector<int64_t> encode(std::string_view) const;  // without begin and end
  std::string decode(std::span<const int64_t>) const;   // special ids left out, kUnknown as ⁇
  std::string token(int64_t id) const;                  // as shown to people: a space is ␣
  // The text's own pieces, as many as encode() gives ids: what an unknown one was.
  std::vector<std::string> pieces(std::string_view) const;
  // Pieces back to text, as decode() does with ids.
  std::string join(std::span<const std::string> pieces) const;

 private:
  struct Impl;
  const Impl& impl() const;  // throws where nothing was trained or loaded
  std::shared_ptr<const Impl> impl_;
};

// ---- Measures -----------------------------------------------------------------------------------

// As sacreBLEU computes them: BLEU with 13a tokenisation and exponential smoothing, chrF2. One list
// of references for each hypothesis, at least one in each; at least one hypothesis.
using References = std::vector<std::vector<std::string>>;
FOVEA_API double bleu(std::span<const std::string> hypotheses, const References&);
// BLEU-n: of n-grams up to that length, n from 1 to 4.
FOVEA_API double bleu_n(int64_t n, std::span<const std::string> hypotheses, const References&);
FOVEA_API double chrf(std::span<const std::string> hypotheses, const References&);
// Share of hypotheses equal to one of their references, in percent.
FOVEA_API double exact_match(std::span<const std::string> hypotheses, const References&);
// Insertions, deletions and substitutions against the nearest reference, over its length, in
// percent; tokens are what spaces separate.
FOVEA_API double token_error_rate(std::span<const std::string> hypotheses, const References&);
FOVEA_API int64_t edit_distance(std::span<const std::string> a, std::span<const std::string> b);

// ---- UTF-8 --------------------------------------------------------------------------------------

FOVEA_API std::vector<std::string> characters(std::string_view);  // code points; invalid: U+FFFD
FOVEA_API std::string valid_utf8(std::string_view);
FOVEA_API int64_t columns(std::string_view);  // width in a terminal

// ---- Pairs of sentences -------------------------------------------------------------------------

struct Pair {  // a sentence and its translation
  std::string source, target;
};
// Lines "source<TAB>target[<TAB>more columns, the same number in every line]", plain or gzipped;
// CRLF is accepted, a byte order mark dropped, empty lines are skipped, invalid UTF-8 is replaced
// where it is rare, and quotation marks mean nothing. What else is wrong throws with the file and
// line: no tab, an empty source or target, text after a tab too many, a zero byte, UTF-16, a line
// over 1 MB, more than 4 GB of text, gzip data that unpacks to over 8 MB and a hundred times its
// size; and a file with no pairs.
FOVEA_API std::vector<Pair> read_tsv(const std::filesystem::path&);
// Two files with as many lines; those empty in both are skipped.
FOVEA_API std::vector<Pair> read_parallel(const std::filesystem::path& source,
                                          const std::filesystem::path& target);
// Every line, empty ones too.
FOVEA_API std::vector<std::string> read_lines(const std::filesystem::path&);

struct Split {  // what is learned from, and what is held out
  std::vector<Pair> train, valid, test;
};
// All pairs with one source go to one side; which one depends on the seed and the source alone.
FOVEA_API Split split_by_source(std::vector<Pair>, double valid_share, double test_share,
                                uint64_t seed);

}  // namespace fovea::text
