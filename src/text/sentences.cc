#include "text/sentences.h"

#include <algorithm>
#include <array>

#include "text/utf8.h"

namespace fovea::text {
namespace {

struct Letter {
  char32_t code;
  size_t begin, end;  // bytes
};

constexpr std::array<std::string_view, 44> kAbbreviations = {
    "mr",  "mrs",  "ms",   "dr",  "prof",   "st",  "jr",   "sr",   "rev", "gen", "col",
    "lt",  "sgt",  "capt", "hon", "messrs", "mme", "mlle", "vs",   "etc", "inc", "ltd",
    "co",  "corp", "no",   "vol", "pp",     "fig", "ed",   "eds",  "al",  "cf",  "ca",
    "jan", "feb",  "mar",  "apr", "jun",    "jul", "aug",  "sept", "oct", "nov", "dec"};

bool is_stop(char32_t c) { return c == '.' || c == '!' || c == '?' || c == 0x2026; }
bool is_wide_stop(char32_t c) { return c == 0x3002 || c == 0xFF01 || c == 0xFF1F; }
bool closes(char32_t c) {
  constexpr std::u32string_view kClosing = U"\"')]}»”’›」』）】〉》";
  return kClosing.find(c) != kClosing.npos;
}
bool opens(char32_t c) {
  constexpr std::u32string_view kOpening = U"\"'([{«“‘‹「『（¿¡-–—";
  return kOpening.find(c) != kOpening.npos;
}
bool breaks_line(char32_t c) { return c == '\n' || c == '\r' || c == 0x2028 || c == 0x2029; }

std::vector<Letter> letters_of(std::string_view text) {
  std::vector<Letter> letters;
  letters.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point(text, at);
    letters.push_back({c.code, at, at + c.bytes});
    at += c.bytes;
  }
  return letters;
}

class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text), letters_(letters_of(text)) {
    cased_ = std::any_of(letters_.begin(), letters_.end(),
                         [](const Letter& l) { return is_upper(l.code); });
  }

  std::vector<std::string> sentences() const {
    std::vector<std::string> all;
    size_t first = 0;
    const auto end_at = [&](size_t end) {
      size_t from = first, to = end;
      while (from < to && is_space(letters_[from].code)) ++from;
      while (to > from && is_space(letters_[to - 1].code)) --to;
      if (from < to) {
        const size_t begin = letters_[from].begin;
        all.emplace_back(text_.substr(begin, letters_[to - 1].end - begin));
      }
      first = end;
    };
    for (size_t i = 0; i < letters_.size();) {
      if (breaks_line(letters_[i].code)) {
        end_at(++i);
      } else if (is_stop(letters_[i].code) || is_wide_stop(letters_[i].code)) {
        const size_t after = end_of_marks(i);
        if (ends(i, after)) end_at(after);
        i = after;
      } else {
        ++i;
      }
    }
    end_at(letters_.size());
    return all;
  }

 private:
  // Marks in a row, then what closes: ?!" and ...)
  size_t end_of_marks(size_t i) const {
    while (i < letters_.size() && (is_stop(letters_[i].code) || is_wide_stop(letters_[i].code))) {
      ++i;
    }
    while (i < letters_.size() && closes(letters_[i].code)) ++i;
    return i;
  }

  bool ends(size_t mark, size_t after) const {
    for (size_t i = mark; i < after; ++i) {
      if (is_wide_stop(letters_[i].code)) return true;
    }
    if (after == letters_.size()) return true;
    if (!is_space(letters_[after].code)) return false;
    const bool alone = mark > 0 && is_space(letters_[mark - 1].code);
    if (letters_[mark].code == '.' && after == mark + 1 && abbreviates(mark - alone)) return false;
    if (alone) return true;
    return !cased_ || !goes_on(after);
  }

  bool goes_on(size_t i) const {
    while (i < letters_.size() && (is_space(letters_[i].code) || opens(letters_[i].code))) ++i;
    return i < letters_.size() && is_lower(letters_[i].code);
  }

  // The word that ends at `mark`, before a full stop.
  bool abbreviates(size_t mark) const {
    size_t first = mark;
    bool dotted = false;
    while (first > 0 && !is_space(letters_[first - 1].code) && !opens(letters_[first - 1].code)) {
      --first;
      dotted = dotted || letters_[first].code == '.';
    }
    if (first == mark) return false;
    const std::string word = lowercase(
        text_.substr(letters_[first].begin, letters_[mark - 1].end - letters_[first].begin));
    if (dotted) return letters_of_one_each(first, mark);  // e.g. U.S.
    const char32_t c = letters_[first].code;
    if (mark - first == 1) return (is_upper(c) && c != 'I') || (!cased_ && is_lower(c) && c != 'i');
    return std::find(kAbbreviations.begin(), kAbbreviations.end(), word) != kAbbreviations.end();
  }

  // x.y: single letters with dots between them.
  bool letters_of_one_each(size_t first, size_t mark) const {
    for (size_t i = first; i < mark; ++i) {
      const bool dot = letters_[i].code == '.';
      if (dot != ((i - first) % 2 == 1)) return false;
    }
    return true;
  }

  std::string_view text_;
  std::vector<Letter> letters_;
  bool cased_ = false;
};

}  // namespace

std::vector<std::string> split_sentences(std::string_view text) {
  return Splitter(text).sentences();
}

}  // namespace fovea::text
