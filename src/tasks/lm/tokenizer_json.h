#pragma once

#include <nlohmann/json.hpp>

#include "fovea/text.h"

namespace fovea::tasks::lm {

// A tokenizer of ours as the package `tokenizers` reads it, lines with their ends: the same ids.
// Characters and subwords; words, as they are split here, have no counterpart.
nlohmann::ordered_json tokenizer_json(const text::Tokenizer&);

}  // namespace fovea::tasks::lm
