#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

// Byte-pair encoding as SentencePiece does it: a sentence is ▁one▁line, ASCII spaces being ▁, and
// nothing else is changed; then, of all neighbours whose union is a token, those with the lowest id
// join first. Characters that no token has are unknown, a run of them as one.
namespace fovea::text {

// The tokens in the order of their ids: at most `most`, fewer when the lines give no more.
// Characters that do not fit, and those rarer than `min_count`, are left out.
std::vector<std::string> train_subwords(std::span<const std::string> lines, int64_t most,
                                        int64_t min_count);

std::vector<std::string> split_subwords(const Vocabulary&, std::string_view valid_utf8);
std::string join_subwords(std::span<const std::string> pieces);

std::string with_space_marks(std::string_view text);  // "one line" as "▁one▁line"

}  // namespace fovea::text
