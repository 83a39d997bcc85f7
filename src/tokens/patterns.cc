#include "tokens/patterns.h"

#include "tokens/characters.h"

namespace fovea::tokens {
namespace {

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt2Other =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

enum class Kind : uint8_t { letter, number, space, other };

Kind kind_of(const Classes& is, char32_t c) {
  const uint16_t bits = is(c);
  return bits & kLetter   ? Kind::letter
         : bits & kNumber ? Kind::number
         : is_white(c)    ? Kind::space
                          : Kind::other;
}

bool is_line_end(char c) { return c == '\r' || c == '\n'; }

class Text {
 public:
  explicit Text(std::string_view text) : text_(text), is_(classes()) {}

  bool ends(size_t at) const { return at >= text_.size(); }
  char byte(size_t at) const { return at < text_.size() ? text_[at] : '\0'; }
  // Of the character at `at`, which is moved behind it.
  Kind next(size_t& at) const { return kind_of(is_, next_code(text_, at)); }
  Kind peek(size_t at) const { return next(at); }

  // Behind the characters of one kind that begin at `at`.
  size_t run(Kind kind, size_t at, size_t most = static_cast<size_t>(-1)) const {
    while (most-- > 0 && !ends(at)) {
      size_t after = at;
      if (next(after) != kind) break;
      at = after;
    }
    return at;
  }

  // \s+(?!\S)|\s+ : spaces but the last one where a word follows, which may take it.
  size_t spaces(size_t at) const {
    const size_t end = run(Kind::space, at);
    if (ends(end)) return end;
    size_t last = end - 1;
    while (continues(text_[last])) --last;
    return last > at ? last : end;
  }

  // '(s|t|re|ve|m|ll|d) at an apostrophe; 0: none
  size_t contraction(size_t at, bool any_case) const {
    const char a = letter(at + 1, any_case), b = letter(at + 2, any_case);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return at + 2;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return at + 3;
    // Without regard to case ſ is an s.
    return any_case && text_.substr(at + 1, 2) == "\xC5\xBF" ? at + 3 : 0;
  }

 private:
  char letter(size_t at, bool any_case) const {
    const char c = byte(at);
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  }

  std::string_view text_;
  const Classes& is_;
};

size_t gpt2_end(const Text& text, size_t at) {
  if (text.byte(at) == '\'') {
    if (const size_t end = text.contraction(at, false); end != 0) return end;
  }
  size_t word = at;
  if (text.byte(at) == ' ' && !text.ends(at + 1)) ++word;
  const Kind kind = text.peek(word);
  return kind == Kind::space ? text.spaces(at) : text.run(kind, word);
}

size_t behind_line_ends(const Text& text, size_t at) {
  while (is_line_end(text.byte(at))) ++at;
  return at;
}

// \s*[\r\n]+ up to the last line end among the spaces; 0: there is none
size_t lines_end(const Text& text, size_t at) {
  const size_t end = text.run(Kind::space, at);
  for (size_t i = end; i > at; --i) {
    if (is_line_end(text.byte(i - 1))) return i;
  }
  return 0;
}

size_t llama_end(const Text& text, size_t at, size_t most_numbers) {
  if (text.byte(at) == '\'') {
    if (const size_t end = text.contraction(at, true); end != 0) return end;
  }
  size_t second = at;
  const Kind kind = text.next(second);
  if (kind == Kind::letter) return text.run(Kind::letter, at);
  if (kind == Kind::number) return text.run(Kind::number, at, most_numbers);
  const bool one_before = !is_line_end(text.byte(at)) && !text.ends(second);
  if (one_before && text.peek(second) == Kind::letter) return text.run(Kind::letter, second);
  if (kind == Kind::other) return behind_line_ends(text, text.run(Kind::other, at));
  if (text.byte(at) == ' ' && one_before && text.peek(second) == Kind::other) {
    return behind_line_ends(text, text.run(Kind::other, second));
  }
  const size_t lines = lines_end(text, at);
  return lines != 0 ? lines : text.spaces(at);
}

}  // namespace

std::optional<Words> words_of(std::string_view regex) {
  if (regex == kGpt2 || regex == kGpt2Other) return Words::gpt2;
  if (regex == kLlama3) return Words::llama3;
  if (regex == kQwen) return Words::qwen;
  return {};
}

size_t word_end(Words words, std::string_view valid_utf8, size_t at) {
  const Text text(valid_utf8);
  if (words == Words::gpt2) return gpt2_end(text, at);
  return llama_end(text, at, words == Words::llama3 ? 3 : 1);
}

}  // namespace fovea::tokens
