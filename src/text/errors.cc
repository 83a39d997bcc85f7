#include <algorithm>
#include <numeric>

#include "text/measures.h"

namespace fovea::text {

// d(i, j) = min(d(i-1, j) + 1, d(i, j-1) + 1, d(i-1, j-1) + [aᵢ ≠ bⱼ]), a row at a time.
int64_t edit_distance(std::span<const std::string> a, std::span<const std::string> b) {
  std::vector<int64_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    int64_t diagonal = row[0];
    row[0] = static_cast<int64_t>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int64_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

double exact_match(std::span<const std::string> hypotheses, const References& references) {
  check_references("exact_match", hypotheses, references);
  int64_t equal = 0;
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    const auto& own = references[i];
    if (std::find(own.begin(), own.end(), hypotheses[i]) != own.end()) ++equal;
  }
  return 100.0 * static_cast<double>(equal) / static_cast<double>(hypotheses.size());
}

double token_error_rate(std::span<const std::string> hypotheses, const References& references) {
  check_references("token_error_rate", hypotheses, references);
  int64_t edits = 0, length = 0;
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    const std::vector<std::string> found = split_at_spaces(hypotheses[i]);
    int64_t fewest = -1, its_length = 0;
    for (const std::string& reference : references[i]) {
      const std::vector<std::string> expected = split_at_spaces(reference);
      const int64_t distance = edit_distance(found, expected);
      if (fewest >= 0 && distance >= fewest) continue;
      fewest = distance;
      its_length = static_cast<int64_t>(expected.size());
    }
    edits += fewest;
    length += its_length;
  }
  return 100.0 * static_cast<double>(edits) / static_cast<double>(std::max<int64_t>(length, 1));
}

}  // namespace fovea::text
