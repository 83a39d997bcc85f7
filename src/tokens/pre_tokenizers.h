#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "tokens/traced.h"

namespace fovea::tokens {

// A text and its words: bytes [begin, end) each, in order, none empty.
struct Split {
  Traced traced;
  std::vector<Span> words;
};

struct PreTokenizer {
  std::function<void(Split&)> apply;  // empty: the text is one word
  bool byte_level = false;            // the model takes bytes, as spelled_bytes() writes them
};

// As "pre_tokenizer" of tokenizer.json says; may be null.
PreTokenizer read_pre_tokenizer(const nlohmann::ordered_json&);

// Each byte as the visible character that byte-level vocabularies write for it: a space is Ġ.
void spell_bytes(Split&);
char32_t spelled_byte(unsigned char);
// The bytes that characters stand for; false where one stands for none.
bool bytes_of_spelled(std::string_view piece, std::string& bytes);

}  // namespace fovea::tokens
