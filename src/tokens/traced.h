#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokens/characters.h"

namespace fovea::tokens {

struct Span {
  uint32_t begin = 0, end = 0;  // bytes
  bool operator==(const Span&) const = default;
};

// A text on its way to tokens, valid UTF-8, and where each of its bytes comes from in the text that
// was given: [begin, end) of a whole character there. What is put in comes from where the character
// before it does, at the very beginning from nowhere; what is taken out is forgotten.
struct Traced {
  std::string text;
  std::vector<Span> from;  // a byte each; empty: the text is unchanged, and began at `base`
  uint32_t base = 0;

  // Where bytes [begin, end) come from, which are at least one.
  Span origin(size_t begin, size_t end) const;
  Traced slice(size_t begin, size_t end) const;
};

inline constexpr size_t kMaxText = size_t{1} << 28;       // bytes that are given
inline constexpr size_t kMaxRewritten = size_t{1} << 31;  // and what normalizers may make of them

// Of bytes that may be no UTF-8: every broken piece is U+FFFD.
Traced traced(std::string_view given);
// Fills `from`, so that it can be changed.
void spell_out(Traced&);

// A character of a text that is rewritten. change 0: it stands for the next one of the old text;
// −n: for the next one, and the n after that are gone; 1 or more: it is new.
struct Change {
  char32_t code;
  int change;
};
// `skipped` characters at the beginning are gone.
void rewrite(Traced&, std::span<const Change>, size_t skipped = 0);

void prepend(Traced&, std::string_view what);  // nothing to an empty text

// Every place where `what` stands becomes `by`.
void replace(Traced&, std::string_view what, std::string_view by);
// Every [begin, end) of `places`, in order, becomes `by`.
void replace_places(Traced&, std::span<const Span> places, std::string_view by);

// The characters for which keep(code) holds.
template <class Keep>
void filter(Traced& t, Keep&& keep);

template <class Keep>
void filter(Traced& t, Keep&& keep) {
  std::vector<Change> kept;
  size_t skipped = 0;
  bool any = false;
  for (const char32_t code : decoded(t.text)) {
    const bool stays = keep(code);
    any = any || !stays;
    if (stays) {
      kept.push_back({code, 0});
    } else if (kept.empty()) {
      ++skipped;
    } else {
      --kept.back().change;
    }
  }
  if (any) rewrite(t, kept, skipped);
}

}  // namespace fovea::tokens
