#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "fovea/text.h"

// What the measures share.
namespace fovea::text {

// Throws unless there are hypotheses, and for each a list of at least one reference.
void check_references(const char* call, std::span<const std::string> hypotheses, const References&);

std::vector<std::string> split_at_spaces(std::string_view);  // any Unicode space

// A text and the units its n-grams are made of: bytes [begin, end) each, in order.
struct Units {
  struct ByteRange {
    size_t begin, end;
  };
  std::string text;
  std::vector<ByteRange> units;
};

// How often each n-gram appears, as views into units.text.
using Counts = std::unordered_map<std::string_view, int64_t>;
Counts count_ngrams(const Units& units, size_t n);

// Σ min(a, b) over the n-grams of both.
int64_t common(const Counts& a, const Counts& b);

}  // namespace fovea::text
