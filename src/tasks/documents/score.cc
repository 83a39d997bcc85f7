#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "fovea/error.h"
#include "tasks/documents/documents.h"
#include "text/utf8.h"

namespace fovea::tasks::classification {
namespace {

constexpr size_t kMostConfused = 40;  // classes of a matrix that is shown

// In percent. 0/0 is 0: a class that nothing was taken for has no precision to speak of.
struct ClassScores {
  double precision = 0, recall = 0, f1 = 0;
  int64_t count = 0;
};

ClassScores scores_of_class(const Confusion& m, size_t k) {
  const auto share = [](int64_t part, int64_t of) {
    return of == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(of);
  };
  int64_t said = 0;
  ClassScores s;
  for (size_t other = 0; other < m.size(); ++other) {
    s.count += m[k][other];
    said += m[other][k];
  }
  s.precision = share(m[k][k], said);
  s.recall = share(m[k][k], s.count);
  s.f1 = share(2 * m[k][k], said + s.count);
  return s;
}

}  // namespace

Graded grade(const Classifier& c, std::span<const text::Labelled> documents, Maps maps,
             const ShareDone& done) {
  if (documents.empty()) throw Error("evaluate", "there are no documents to score");
  Graded graded;
  std::vector<models::DocumentIds> ids;
  for (const text::Labelled& d : documents) {
    graded.classes.push_back(c.known.class_of(d.label));
    if (graded.classes.back() < 0) {
      throw Error(
          "evaluate",
          fmt::format(
              "the class '{}' was not in the training; there are {}", d.label.substr(0, 40),
              fmt::join(
                  std::span(c.known.classes).first(std::min<size_t>(c.known.classes.size(), 12)),
                  ", ")));
    }
    ids.push_back(c.known.ids_of(taken_apart(d.text, c.config.reading)));
  }
  graded.judged = judge(c, ids, maps, done);
  return graded;
}

Confusion confusion_of(const Graded& g, size_t classes) {
  Confusion m(classes, std::vector<int64_t>(classes, 0));
  for (size_t i = 0; i < g.classes.size(); ++i) {
    ++m[static_cast<size_t>(g.classes[i])][static_cast<size_t>(g.judged[i].likeliest())];
  }
  return m;
}

// Macro-F1 is a mean over the classes that there are documents of.
train::Scores scores_of(const Graded& g, size_t classes) {
  double loss = 0;
  for (size_t i = 0; i < g.classes.size(); ++i) {
    const float p = g.judged[i].probabilities[static_cast<size_t>(g.classes[i])];
    loss -= std::log(std::max(static_cast<double>(p), 1e-30));
  }
  const Confusion m = confusion_of(g, classes);
  int64_t right = 0;
  double f1 = 0, present = 0;
  for (size_t k = 0; k < classes; ++k) {
    right += m[k][k];
    const ClassScores s = scores_of_class(m, k);
    if (s.count > 0) f1 += s.f1, present += 1;
  }
  const auto n = static_cast<double>(g.classes.size());
  return {{"loss", loss / n},
          {"accuracy", 100.0 * static_cast<double>(right) / n},
          {"macro_f1", f1 / present}};
}

Evaluation evaluation_of(const Graded& g, const std::vector<std::string>& classes) {
  Evaluation e{.count = static_cast<int64_t>(g.classes.size()),
               .unit = "documents",
               .scores = scores_of(g, classes.size()),
               .breakdowns = {}};
  const Confusion m = confusion_of(g, classes.size());
  Breakdown by_class{.by = "class", .parts = {}}, taken{.by = "class taken for", .parts = {}};
  for (size_t k = 0; k < classes.size(); ++k) {
    const ClassScores s = scores_of_class(m, k);
    by_class.parts.push_back(
        {classes[k], s.count, {{"precision", s.precision}, {"recall", s.recall}, {"f1", s.f1}}});
    Part& part = taken.parts.emplace_back(Part{classes[k], s.count, {}});
    for (size_t other = 0; other < classes.size(); ++other) {
      part.scores.emplace_back(classes[other], static_cast<double>(m[k][other]));
    }
  }
  e.breakdowns.push_back(std::move(by_class));
  if (classes.size() <= kMostConfused) e.breakdowns.push_back(std::move(taken));
  return e;
}

std::vector<std::vector<Attended>> most_attended(const Classifier& c,
                                                 std::span<const text::Labelled> documents,
                                                 size_t most) {
  const size_t classes = c.known.classes.size();
  const Graded g = grade(c, documents, Maps::keep);
  struct Sums {
    double weight = 0, lift = 0;
    int64_t count = 0, documents = 0;
  };
  std::vector<std::map<std::string, Sums>> sums(classes);
  std::vector<double> judged(classes, 0);
  for (size_t i = 0; i < documents.size(); ++i) {
    const Apart apart = taken_apart(documents[i].text, c.config.reading);
    const Looked& looked = g.judged[i].looked;
    const auto k = static_cast<size_t>(g.judged[i].likeliest());
    judged[k] += 1;
    size_t n = 0;
    for (const auto& sentence : apart.sentences) n += sentence.size();
    std::map<std::string, bool> seen;
    for (size_t s = 0; s < looked.sentences.size(); ++s) {
      for (size_t w = 0; w < looked.words[s].size(); ++w) {
        const std::string word = text::lowercase(apart.sentences[s][w]);
        if (c.known.words->id(word) == text::kUnknown) continue;
        const double weight =
            static_cast<double>(looked.sentences[s]) * static_cast<double>(looked.words[s][w]);
        Sums& sum = sums[k][word];
        sum.weight += weight;
        sum.lift += weight * static_cast<double>(n);
        ++sum.count;
        sum.documents += seen.emplace(word, true).second;
      }
    }
  }
  std::vector<std::vector<Attended>> result(classes);
  const double all = static_cast<double>(documents.size());
  for (size_t k = 0; k < classes; ++k) {
    if (judged[k] == 0) continue;
    for (const auto& [word, sum] : sums[k]) {
      // In one document in a hundred of the class, and in two: a name is no reason.
      if (sum.documents < std::max<int64_t>(2, std::llround(judged[k] / 100))) continue;
      double elsewhere = 0;
      for (size_t other = 0; other < classes; ++other) {
        const auto found = sums[other].find(word);
        if (other != k && found != sums[other].end()) elsewhere += found->second.weight;
      }
      const double others = all - judged[k];
      result[k].push_back({.word = word,
                           .share = sum.weight / judged[k],
                           .elsewhere = others > 0 ? elsewhere / others : 0,
                           .lift = sum.lift / static_cast<double>(sum.count),
                           .count = sum.count});
    }
    std::stable_sort(result[k].begin(), result[k].end(), [](const Attended& a, const Attended& b) {
      return a.share - a.elsewhere > b.share - b.elsewhere;
    });
    result[k].resize(std::min(result[k].size(), most));
  }
  return result;
}

report::Section most_attended_section(const Classifier& c,
                                      std::span<const text::Labelled> documents) {
  constexpr size_t kWords = 15, kClasses = 8;
  report::Section section{"Most attended words", {}};
  section.blocks.push_back(report::Text{
      "Of held-out documents that were said to be of a class, the words that get the most of the "
      "attention there beyond what they get elsewhere: their share of a document's attention in "
      "the class and in the others, and how much more one of them gets than a word by chance."});
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
