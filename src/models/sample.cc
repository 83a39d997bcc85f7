#include "fovea/sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "fovea/error.h"

namespace fovea::models {
namespace {

// log Σ e^{logit}
double log_sum(std::span<const float> logits, double largest) {
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - largest);
  return largest + std::log(sum);
}

// Ids of tokens that may be drawn, likeliest first; all of them or the first k.
std::vector<int64_t> ranked(std::span<const float> logits, int64_t k,
                            std::span<const int64_t> never) {
  std::vector<int64_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), int64_t{0});
  std::erase_if(ids, [&](int64_t id) {
    return std::find(never.begin(), never.end(), id) != never.end() ||
           logits[static_cast<size_t>(id)] == -INFINITY;
  });
  const auto likelier = [&](int64_t a, int64_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  const auto n = k > 0 ? std::min(static_cast<size_t>(k), ids.size()) : ids.size();
  std::partial_sort(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(n), ids.end(), likelier);
  ids.resize(n);
  return ids;
}

}  // namespace

void check(const SampleConfig& c) {
  if (!(c.temperature >= 0 && c.temperature <= 1000)) {
    throw Error("sample", fmt::format("temperature must be in [0, 1000], found {}", c.temperature));
  }
  if (c.top_k < 0) throw Error("sample", fmt::format("top_k must be 0 or more, found {}", c.top_k));
  if (!(c.top_p > 0 && c.top_p <= 1)) {
    throw Error("sample", fmt::format("top_p must be above 0 and at most 1, found {}", c.top_p));
  }
}

Sampled sample(std::span<const float> logits, const SampleConfig& c, double uniform,
               std::span<const int64_t> never) {
  check(c);
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) || logits[i] == INFINITY) {
      throw Error("sample", fmt::format("the logit of token {} is {}", i, logits[i]));
    }
  }
  const std::vector<int64_t> ids = ranked(logits, c.temperature == 0 ? 1 : c.top_k, never);
  if (ids.empty()) throw Error("sample", "there is no token to draw");
  const auto logit = [&](int64_t id) {
    return static_cast<double>(logits[static_cast<size_t>(id)]);
  };
  const double largest = logit(ids.front());
  const double all = log_sum(logits, *std::max_element(logits.begin(), logits.end()));
  if (c.temperature == 0) return {ids.front(), largest - all};

  std::vector<double> p;
  for (const int64_t id : ids) {
    p.push_back(std::exp((logit(id) - largest) / static_cast<double>(c.temperature)));
  }
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  double kept = 0;
  size_t n = 0;
  while (n < p.size() && (n == 0 || kept < static_cast<double>(c.top_p) * total)) kept += p[n++];
  double left = uniform * kept;
  size_t i = 0;
  while (i + 1 < n && left >= p[i]) left -= p[i++];
  return {ids[i], logit(ids[i]) - all};
}

}  // namespace fovea::models
