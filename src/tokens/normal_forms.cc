#include "tokens/normal_forms.h"

#include <algorithm>

#include "text/utf8.h"

// Unicode's normal forms over what the reference knows of them (version 9): newer characters have
// neither parts nor a combining class. Changes travel with their characters through the order of
// marks, which gives the places their meaning.
namespace fovea::tokens {
namespace {

uint8_t class_of(char32_t c) {
  return classes()(c) & kReorders ? text::combining_class(c) : uint8_t{0};
}

// The parts of all characters, marks in canonical order.
std::vector<Change> taken_apart(std::string_view text, text::Decomposition kind) {
  const Classes& is = classes();
  std::vector<Change> parts;
  parts.reserve(text.size());
  size_t marks = 0;  // where the run of marks at the end begins
  const auto sort_marks = [&] {
    if (parts.size() - marks < 2) return;
    std::stable_sort(
        parts.begin() + static_cast<std::ptrdiff_t>(marks), parts.end(),
        [](const Change& a, const Change& b) { return class_of(a.code) < class_of(b.code); });
  };
  const auto put = [&](char32_t c, int change) {
    if (!(is(c) & kReorders)) {
      sort_marks();
      parts.push_back({c, change});
      marks = parts.size();
    } else {
      parts.push_back({c, change});
    }
  };
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_code(text, at);
    if (!(is(c) & kDecomposes)) {
      put(c, 0);
      continue;
    }
    int change = 0;
    for (const char32_t part : text::decomposed(c, kind)) put(part, change), change = 1;
  }
  sort_marks();
  return parts;
}

// A starter takes in the marks that compose with it and that nothing stands before.
std::vector<Change> put_together(const std::vector<Change>& parts) {
  std::vector<Change> whole, held;  // held: marks between the starter and here that stay
  whole.reserve(parts.size());
  Change starter{};
  bool has_starter = false;
  const auto flush = [&] {
    if (has_starter) whole.push_back(starter);
    whole.insert(whole.end(), held.begin(), held.end());
    held.clear();
  };
  for (const Change& part : parts) {
    const uint8_t mark = class_of(part.code);
    if (!has_starter) {
      if (mark != 0) {
        whole.push_back(part);
      } else {
        starter = part, has_starter = true;
      }
      continue;
    }
    const bool blocked = !held.empty() && class_of(held.back().code) >= mark;
    const char32_t both = blocked ? 0 : text::composed(starter.code, part.code);
    if (both != 0 && (classes()(both) & kDecomposes)) {
      starter = {both, starter.change + part.change - 1};
    } else if (mark == 0) {
      flush();
      starter = part;
    } else {
      held.push_back(part);
    }
  }
  flush();
  return whole;
}

// Below, every character is itself in NFC, and none joins with the next.
constexpr char32_t kFirstMark = 0x300;

bool all_below(std::string_view text, char32_t bound) {
  for (size_t at = 0; at < text.size();) {
    if (next_code(text, at) >= bound) return false;
  }
  return true;
}

}  // namespace

void normalize(Traced& t, NormalForm form) {
  const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  const bool together = form == NormalForm::nfc || form == NormalForm::nfkc;
  if (all_below(t.text, form == NormalForm::nfc ? kFirstMark : 0x80)) return;
  std::vector<Change> parts = taken_apart(
      t.text, compatible ? text::Decomposition::compatible : text::Decomposition::canonical);
  if (together) parts = put_together(parts);
  rewrite(t, parts);
}

}  // namespace fovea::tokens
