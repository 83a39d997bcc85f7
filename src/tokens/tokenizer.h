#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Tokenizers of models that others trained, read from the files they lie in: the same ids, places
// and decoded text as those of the library they were trained with. What is not understood is
// refused by its name.
namespace fovea::tokens {

// [begin, end): the bytes of the text that it came from, whole characters. What the post-processor
// added came from none: 0 and 0.
struct Token {
  int64_t id = 0;
  size_t begin = 0, end = 0;
  int64_t type = 0;  // which text of a pair, as the model has learned it (token_type_ids)
};

enum class Specials : uint8_t { add, none };  // what the post-processor adds: [CLS], <s>, </s> …
enum class KeptTokens : uint8_t { words, all };  // decoded: without special tokens, or with them

// Where the files name them.
struct SpecialIds {
  std::optional<int64_t> begin, end, pad, unknown, mask, separator, first;  // first: [CLS]
};

// Immutable, cheap to copy; any number of threads may ask at once.
class Tokenizer {
 public:
  struct Parts;  // parts.h
  explicit Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

  // Bytes that are no UTF-8 count as U+FFFD each, taken as code_point() of text/utf8.h takes them.
  std::vector<Token> encode(std::string_view text, Specials = Specials::add) const;
  std::vector<Token> encode_pair(std::string_view a, std::string_view b,
                                 Specials = Specials::add) const;
  // Ids without a piece are left out. Valid UTF-8.
  std::string decode(std::span<const int64_t> ids, KeptTokens = KeptTokens::words) const;

  std::string_view piece(int64_t id) const;  // as the vocabulary has it; of a hole, ""
  std::string shown(int64_t id) const;       // for people: " the" where the piece is "Ġthe"
  std::optional<int64_t> id(std::string_view piece) const;
  int64_t size() const;  // the largest id + 1; a model may have more rows
  bool special(int64_t id) const;
  const SpecialIds& special_ids() const;
  std::string about() const;  // "byte-level BPE, 50257 tokens"

 private:
  std::shared_ptr<const Parts> parts_;
};

// Of a model's folder: tokenizer.json; else vocab.txt; else vocab.json with merges.txt; else
// source.spm and target.spm with vocab.json (Marian); else tokenizer.model or spiece.model.
// tokenizer_config.json, special_tokens_map.json and config.json beside them say the rest.
Tokenizer open_tokenizer(const std::filesystem::path& folder);
// What a translator writes: Marian's target side; of others, the same as above.
Tokenizer open_target_tokenizer(const std::filesystem::path& folder);

// A tokenizer.json by itself; `name` is what messages call it.
Tokenizer parse_tokenizer(std::string_view json, const std::string& name = "tokenizer.json");

}  // namespace fovea::tokens
