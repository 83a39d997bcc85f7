#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tokens/normalizers.h"
#include "tokens/pieces.h"
#include "tokens/trie.h"

namespace fovea::tokens {

// A token that is found in the text as it is, before any model sees it.
struct AddedToken {
  std::string content;
  int64_t id = 0;
  bool single_word = false;             // not within a word
  bool lstrip = false, rstrip = false;  // takes the spaces before it, or behind
  bool normalized = false;              // found after the text was normalized, as its content is
  bool special = false;
};

class AddedTokens {
 public:
  AddedTokens() = default;
  // Where a token is a piece of the model's, that is its id; the others follow the vocabulary.
  // Throws where their ids say otherwise.
  AddedTokens(std::vector<AddedToken>, const Pieces&, const Normalizer&);

  struct Match {
    size_t begin, end;
    const AddedToken* token;
  };
  enum class Stage : uint8_t { raw, normalized };
  // Leftmost, of those the longest; in order, and apart from each other.
  std::vector<Match> find(std::string_view valid_utf8, Stage) const;

  const AddedToken* by_id(int64_t id) const;
  const AddedToken* by_content(std::string_view content) const;
  bool special(std::string_view content) const { return special_.count(std::string(content)) > 0; }
  int64_t end() const;                 // the largest id + 1
  size_t beyond(const Pieces&) const;  // how many the model has not

 private:
  bool fits(std::string_view text, Match&, size_t taken) const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, size_t> by_content_;
  std::unordered_map<int64_t, size_t> by_id_;
  std::unordered_set<std::string> special_;
  Trie raw_, normalized_;
};

}  // namespace fovea::tokens
