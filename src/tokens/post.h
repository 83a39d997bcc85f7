#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "tokens/tokenizer.h"

namespace fovea::tokens {

// A token, and how many spaces (Ġ, or any) its piece begins and ends with.
struct SpacedToken {
  Token token;
  uint32_t blanks_before = 0, blanks_after = 0;
};

// The tokens of one text.
struct Sequence {
  std::string_view given;
  std::vector<SpacedToken> tokens;
};

// What is done with the tokens of a text or a pair: special ones are added, places lose their
// spaces, types are set. The tokens of all that is there in the end, one after another, are the
// result.
using PostProcessor = std::function<void(std::vector<Sequence>&, Specials)>;

// As "post_processor" of tokenizer.json says; may be null.
PostProcessor read_post_processor(const nlohmann::ordered_json&);

}  // namespace fovea::tokens
