#include <array>

#include "text/measures.h"
#include "text/utf8.h"

// Popović 2015, over a corpus: with P and R the means over n = 1…6 of the precision and the recall
// of character n-grams, spaces left out,
//   chrF = (1 + β²) P R / (β² P + R),  β = 2.
// Orders that the hypotheses or the references have no n-gram of do not count. Of several
// references, each hypothesis is held against the one that gives it the best score.
namespace fovea::text {
namespace {

constexpr size_t kLetterOrders = 6;
constexpr double kBetaSquared = 4;

struct Count {
  int64_t found = 0, expected = 0, matches = 0;
};
using LetterSums = std::array<Count, kLetterOrders>;
using AllCounts = std::array<Counts, kLetterOrders>;

Units letters_of(std::string_view text) {
  Units letters;
  for (const std::string& c : characters(text)) {
    if (is_space(code_point(c, 0).code)) continue;
    letters.units.push_back({letters.text.size(), letters.text.size() + c.size()});
    letters.text += c;
  }
  return letters;
}

AllCounts count_all(const Units& letters) {
  AllCounts all;
  for (size_t n = 1; n <= kLetterOrders; ++n) all[n - 1] = count_ngrams(letters, n);
  return all;
}

int64_t ngrams(const Units& letters, size_t n) {
  const auto length = letters.units.size();
  return length < n ? 0 : static_cast<int64_t>(length - n + 1);
}

double score(const LetterSums& sums) {
  double precision = 0, recall = 0;
  int64_t orders = 0;
  for (const Count& count : sums) {
    if (count.found == 0 || count.expected == 0) continue;
    precision += static_cast<double>(count.matches) / static_cast<double>(count.found);
    recall += static_cast<double>(count.matches) / static_cast<double>(count.expected);
    ++orders;
  }
  if (precision + recall == 0) return 0;
  precision /= static_cast<double>(orders);
  recall /= static_cast<double>(orders);
  return 100 * (1 + kBetaSquared) * precision * recall / (kBetaSquared * precision + recall);
}

LetterSums best_of(const std::string& hypothesis, const std::vector<std::string>& references) {
  const Units letters = letters_of(hypothesis);
  const AllCounts counts = count_all(letters);
  LetterSums best{};
  double best_score = -1;
  for (const std::string& reference : references) {
    const Units expected = letters_of(reference);
    const AllCounts expected_counts = count_all(expected);
    LetterSums sums{};
    for (size_t n = 1; n <= kLetterOrders; ++n) {
      const int64_t there = ngrams(expected, n);
      // Without an n-gram in the reference, those of the hypothesis are not held against it.
      sums[n - 1] = {there == 0 ? 0 : ngrams(letters, n), there,
                     common(counts[n - 1], expected_counts[n - 1])};
    }
    const double its_score = score(sums);
    if (its_score > best_score) {
      best_score = its_score;
      best = sums;
    }
  }
  return best;
}

}  // namespace

double chrf(std::span<const std::string> hypotheses, const References& references) {
  check_references("chrf", hypotheses, references);
  LetterSums all{};
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    const LetterSums one = best_of(hypotheses[i], references[i]);
    for (size_t n = 0; n < kLetterOrders; ++n) {
      all[n].found += one[n].found;
      all[n].expected += one[n].expected;
      all[n].matches += one[n].matches;
    }
  }
  return score(all);
}

}  // namespace fovea::text
