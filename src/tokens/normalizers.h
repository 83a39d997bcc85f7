#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tokens/traced.h"

namespace fovea::tokens {

using Normalizer = std::function<void(Traced&)>;

// As "normalizer" of tokenizer.json says; of null, one that does nothing (and is empty).
Normalizer read_normalizer(const nlohmann::ordered_json&);

// SentencePiece's table of replacements: a trie of bytes over strings that end with a zero.
Normalizer precompiled(std::string charsmap);

}  // namespace fovea::tokens
