#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tasks/documents/documents.h"
#include "text/utf8.h"

namespace fovea::tasks::classification {
namespace {

// Of one word in the documents that were said to be of one class.
struct Sums {
  double weight = 0, lift = 0;
  double excess = 0;  // weight − 1/n, n words of the document
  int64_t count = 0, documents = 0;
};
using SumsByWord = std::map<std::string, Sums>;

struct ByClass {
  std::vector<SumsByWord> words;
  std::vector<double> documents;
};

bool has_letter(std::string_view word) {
  bool found = false;
  text::for_each_code_point(
      word, [&](char32_t code, std::string_view) { found = found || text::is_letter(code); });
  return found;
}

void add(const SplitDocument& apart, const WordWeights& looked, const text::Vocabulary& known,
         SumsByWord& to) {
  size_t words = 0;
  for (const auto& sentence : apart.sentences) words += sentence.size();
  const auto n = static_cast<double>(words);
  std::set<std::string> seen;
  for (size_t s = 0; s < looked.sentences.size(); ++s) {
    for (size_t w = 0; w < looked.words[s].size(); ++w) {
      const std::string word = text::lowercase(apart.sentences[s][w]);
      if (known.id(word) == text::kUnknown || !has_letter(word)) continue;
      const double weight =
          static_cast<double>(looked.sentences[s]) * static_cast<double>(looked.words[s][w]);
      Sums& sum = to[word];
      sum.weight += weight;
      sum.lift += weight * n;
      sum.excess += weight - 1 / n;
      ++sum.count;
      sum.documents += seen.insert(word).second;
    }
  }
}

// In all classes but one.
double weight_elsewhere(const ByClass& all, size_t k, const std::string& word) {
  double weight = 0;
  for (size_t other = 0; other < all.words.size(); ++other) {
    const auto found = all.words[other].find(word);
    if (other != k && found != all.words[other].end()) weight += found->second.weight;
  }
  return weight;
}

// Of words that draw more than their number would, by log(share here / share elsewhere). A little
// is added to both: what is rare must differ more, and what is everywhere ("is") does not lead by
// its number.
std::vector<Attended> ranked(const ByClass& all, size_t k, size_t most) {
  constexpr double kLittle = 2e-4;
  std::vector<Attended> result;
  double others = 0;
  for (size_t other = 0; other < all.documents.size(); ++other) {
    if (other != k) others += all.documents[other];
  }
  const double n = all.documents[k];
  for (const auto& [word, sum] : all.words[k]) {
    // In five documents of a hundred of the class, and in two: a name is no reason.
    if (sum.documents < std::max<int64_t>(2, std::llround(0.05 * n))) continue;
    if (sum.excess <= 0) continue;
    const double share = sum.weight / n,
                 elsewhere = others > 0 ? weight_elsewhere(all, k, word) / others : 0;
    const double rank = std::log((share + kLittle) / (elsewhere + kLittle));
    if (rank <= 0) continue;
    result.push_back({.word = word,
                      .share = share,
                      .elsewhere = elsewhere,
                      .lift = sum.lift / static_cast<double>(sum.count),
                      .rank = rank,
                      .count = sum.count});
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const Attended& a, const Attended& b) { return a.rank > b.rank; });
  result.resize(std::min(result.size(), most));
  return result;
}

}  // namespace

std::vector<std::vector<Attended>> most_attended(const Classifier& c,
                                                 std::span<const text::Labelled> documents,
                                                 size_t most) {
  const size_t classes = c.known.classes.size();
  const Graded g = grade(c, documents, Maps::keep);
  ByClass all{std::vector<SumsByWord>(classes), std::vector<double>(classes, 0)};
  for (size_t i = 0; i < documents.size(); ++i) {
    const auto k = static_cast<size_t>(g.judged[i].likeliest());
    all.documents[k] += 1;
    add(taken_apart(documents[i].text, c.config.reading), g.judged[i].looked, *c.known.words,
        all.words[k]);
  }
  std::vector<std::vector<Attended>> result;
  for (size_t k = 0; k < classes; ++k) result.push_back(ranked(all, k, most));
  return result;
}

report::Section most_attended_section(const Classifier& c,
                                      std::span<const text::Labelled> documents) {
  constexpr size_t kWords = 15, kClasses = 8;
  report::Section section{"Most attended words", {}};
  section.blocks.push_back(report::Text{
      "Of held-out documents that were said to be of a class, the words that draw the most "
      "attention there, beyond what their number would and what they draw elsewhere: their share "
      "of a document's attention in the class and in the others, and how much more one of them "
      "gets than a word by chance."});
  const auto attended = most_attended(c, documents, kWords);
  for (size_t k = 0; k < std::min(attended.size(), kClasses); ++k) {
    report::Table table{{c.known.classes[k], "share, %", "elsewhere, %", "times chance", "count"},
                        {}};
    for (const Attended& a : attended[k]) {
      table.rows.push_back({a.word, fmt::format("{:.2f}", 100 * a.share),
                            fmt::format("{:.2f}", 100 * a.elsewhere), fmt::format("{:.1f}", a.lift),
                            std::to_string(a.count)});
    }
    section.blocks.push_back(std::move(table));
  }
  if (attended.size() > kClasses) {
    section.blocks.push_back(
        report::Text{fmt::format("The first {} of {} classes.", kClasses, attended.size())});
  }
  return section;
}

}  // namespace fovea::tasks::classification
