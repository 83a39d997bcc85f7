#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "fovea/error.h"
#include "tasks/documents/documents.h"

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
    ids.push_back(c.known.ids_of(c.known.apart(d.text, c.config.reading)));
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
  Breakdown by_class{.by = "class", .parts = {}}, taken{.by = "confusion", .parts = {}};
  for (size_t k = 0; k < classes.size(); ++k) {
    const ClassScores s = scores_of_class(m, k);
    by_class.parts.push_back(
        {classes[k], s.count, {{"precision", s.precision}, {"recall", s.recall}, {"f1", s.f1}}});
    ScoredPart& part = taken.parts.emplace_back(ScoredPart{classes[k], s.count, {}});
    for (size_t other = 0; other < classes.size(); ++other) {
      part.scores.emplace_back(classes[other], static_cast<double>(m[k][other]));
    }
  }
  e.breakdowns.push_back(std::move(by_class));
  if (classes.size() <= kMostConfused) e.breakdowns.push_back(std::move(taken));
  return e;
}

}  // namespace fovea::tasks::classification
