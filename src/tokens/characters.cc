#include "tokens/characters.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>

namespace fovea::tokens {
namespace {

struct LowerRow {  // first, first + step, … last: each is `to_first` and on, as far away
  char32_t first, last;
  uint32_t step;
  int32_t delta;
};
constexpr uint32_t kClassBits = 10;

#include "tokens/unicode_table.inc"

}  // namespace

Classes::Classes() {
  std::vector<uint16_t> all;
  all.reserve(0x110000);
  for (const uint32_t run : kClassRuns) {
    all.insert(all.end(), run >> kClassBits, static_cast<uint16_t>(run & ((1u << kClassBits) - 1)));
  }
  all.resize(0x110000);
  std::map<std::vector<uint16_t>, uint32_t> known;  // pages that are alike are kept once
  for (size_t page = 0; page < std::size(page_); ++page) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(page << kBits);
    std::vector<uint16_t> row(begin, begin + (1 << kBits));
    const auto [at, fresh] = known.emplace(std::move(row), static_cast<uint32_t>(pages_.size()));
    if (fresh) pages_.insert(pages_.end(), at->first.begin(), at->first.end());
    page_[page] = at->second;
  }
}

const Classes& classes() {
  static const Classes all;
  return all;
}

Lower lower(char32_t c) {
  constexpr char32_t kDottedI = 0x130, kDotAbove = 0x307;
  if (c < 0x80) return {c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c};
  if (c == kDottedI) return {'i', kDotAbove};
  const auto after =
      std::upper_bound(std::begin(kLower), std::end(kLower), c,
                       [](char32_t x, const LowerRow& row) { return x < row.first; });
  if (after == std::begin(kLower)) return {c};
  const LowerRow& row = *std::prev(after);
  if (c > row.last || (c - row.first) % row.step != 0) return {c};
  return {static_cast<char32_t>(static_cast<int32_t>(c) + row.delta)};
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | (c >> 6)), put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | (c >> 12)), put(0x80 | ((c >> 6) & 0x3F)), put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | (c >> 18)), put(0x80 | ((c >> 12) & 0x3F)), put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

std::vector<char32_t> decoded(std::string_view valid) {
  std::vector<char32_t> all;
  all.reserve(valid.size());
  for (size_t at = 0; at < valid.size();) all.push_back(next_code(valid, at));
  return all;
}

std::string utf8_of(char32_t c) {
  std::string bytes;
  append_utf8(bytes, c);
  return bytes;
}

void replace_each(std::string& text, std::string_view what, std::string_view by) {
  size_t at = text.find(what);
  if (at == text.npos) return;
  std::string changed;
  size_t from = 0;
  for (; at != text.npos; at = text.find(what, from)) {
    changed.append(text, from, at - from).append(by);
    from = at + what.size();
  }
  text = changed.append(text, from);
}

char32_t only_character(std::string_view valid) {
  size_t at = 0;
  const char32_t c = valid.empty() ? 0 : next_code(valid, at);
  return at == valid.size() ? c : 0;
}

}  // namespace fovea::tokens
