#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

// Regular expressions that cut a text into words, matched by hand: each of them matches somewhere
// at every place, so that its matches are the words. There is no backtracking to attack.
namespace fovea::tokens {

enum class Words : uint8_t { gpt2, llama3, qwen };

std::optional<Words> words_of(std::string_view regex);  // by its text

// Where the word that begins at `at` < text.size() ends.
size_t word_end(Words, std::string_view valid_utf8, size_t at);

}  // namespace fovea::tokens
