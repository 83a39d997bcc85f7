#include "core/nearest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace fovea {
namespace {

// Levenshtein's distance, in bytes: d(i, j) = min(d(i-1, j) + 1, d(i, j-1) + 1,
// d(i-1, j-1) + [aᵢ ≠ bⱼ]), a row at a time.
size_t edits(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_hint(std::string_view typed, std::span<const std::string> names) {
  if (names.empty()) return "";
  constexpr size_t kLongest = 100;  // nobody mistypes more
  const auto distance = [&](const std::string& name) {
    return edits(typed.substr(0, kLongest), name);
  };
  const std::string& nearest = *std::ranges::min_element(names, {}, distance);
  const size_t slip = std::max<size_t>(2, std::min(typed.size(), nearest.size()) / 3);
  if (typed.empty() || distance(nearest) > slip) {
    return fmt::format("; there are {}", fmt::join(names, ", "));
  }
  return fmt::format("; did you mean \"{}\"?", nearest);
}

}  // namespace fovea
