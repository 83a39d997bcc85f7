#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fovea/text.h"
#include "tokens/tokenizer.h"

namespace fovea::tasks {

// Text to ids and back: by a tokenizer that was trained here, or by the one of a model that
// somebody else trained.
class Coder {
 public:
  Coder() = default;
  Coder(text::Tokenizer own) : of_(std::move(own)) {}
  // `longest`: tokens that their model reads, what stands around a text included; 0: any number.
  Coder(tokens::Tokenizer theirs, int64_t longest = 0)
      : of_(std::move(theirs)), longest_(longest) {}

  const text::Tokenizer* own() const { return std::get_if<text::Tokenizer>(&of_); }
  const tokens::Tokenizer* theirs() const { return std::get_if<tokens::Tokenizer>(&of_); }

  int64_t size() const;
  // Without begin and end; or, of theirs, with what their model was given around a text. One that
  // is too long loses what is before its end.
  std::vector<int64_t> encode(std::string_view, tokens::Specials = tokens::Specials::none) const;
  std::string decode(std::span<const int64_t>) const;
  std::string token(int64_t id) const;  // as shown to people
  bool is_unknown(int64_t id) const;
  int64_t longest() const { return longest_; }
  // What a text is never to have: padding, beginnings.
  std::vector<int64_t> never() const;

 private:
  std::variant<text::Tokenizer, tokens::Tokenizer> of_;
  int64_t longest_ = 0;
};

std::string label_of(const tokens::Tokenizer&, int64_t id);  // a space before it is ␣

}  // namespace fovea::tasks
