#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "fovea/text.h"

// What a tokenizer file holds: {"unit": "words", "tokens": ["the", ...]}. A token's place gives its
// id, kFirst for the first.
namespace fovea::text {

inline constexpr int64_t kMaxVocabulary = 1'000'000;
inline constexpr size_t kMaxTokenBytes = 1000;  // longer words are unknown
inline constexpr size_t kMaxVocabularyFile = size_t{64} << 20;

class Vocabulary {
 public:
  // Throws fovea::Error unless the tokens differ and are neither empty, too long nor too many.
  Vocabulary(Unit, std::vector<std::string> tokens);
  Vocabulary(Vocabulary&&) = default;
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  Unit unit() const { return unit_; }
  int64_t size() const { return kFirst + static_cast<int64_t>(tokens_.size()); }
  const std::string& token(int64_t id) const { return tokens_[static_cast<size_t>(id - kFirst)]; }
  int64_t id(std::string_view token) const;  // kUnknown when there is none
  std::string json() const;

 private:
  Unit unit_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string_view, int64_t> ids_;  // the keys are in tokens_
};

// Throws fovea::Error naming what is wrong.
Vocabulary parse_vocabulary(std::string_view json);

}  // namespace fovea::text
