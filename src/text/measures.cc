#include "text/measures.h"

#include <fmt/format.h>

#include <algorithm>

#include "fovea/error.h"
#include "text/utf8.h"

namespace fovea::text {

void check_references(const char* call, std::span<const std::string> hypotheses,
                      const References& references) {
  if (hypotheses.empty()) throw Error(call, "no hypotheses");
  if (references.size() != hypotheses.size()) {
    throw Error(call, fmt::format("{} hypotheses, references for {}", hypotheses.size(),
                                  references.size()));
  }
  for (size_t i = 0; i < references.size(); ++i) {
    if (references[i].empty()) throw Error(call, fmt::format("hypothesis {} has no reference", i));
  }
}

std::vector<std::string> split_at_spaces(std::string_view text) {
  std::vector<std::string> tokens;
  bool inside = false;
  for (const std::string& c : characters(text)) {
    const bool space = is_space(code_point(c, 0).code);
    if (!space && !inside) tokens.emplace_back();
    if (!space) tokens.back() += c;
    inside = !space;
  }
  return tokens;
}

Counts count_ngrams(const Units& units, size_t n) {
  Counts counts;
  const std::string_view text = units.text;
  for (size_t last = n - 1; last < units.units.size(); ++last) {
    const size_t begin = units.units[last + 1 - n].begin;
    ++counts[text.substr(begin, units.units[last].end - begin)];
  }
  return counts;
}

int64_t common(const Counts& a, const Counts& b) {
  int64_t sum = 0;
  for (const auto& [ngram, count] : a) {
    const auto found = b.find(ngram);
    if (found != b.end()) sum += std::min(count, found->second);
  }
  return sum;
}

}  // namespace fovea::text
