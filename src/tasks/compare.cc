#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "tasks/page.h"

namespace fovea::tasks {
namespace {

struct Compared {
  const Task* task;
  std::string name, attention;
  Trained trained;
};

Compared read_run(const RunFolder& folder) {
  return {&folder.task(), folder.name(), folder.config()->attention(), folder.results()};
}

// The leading measures of all tasks, each once.
std::vector<Measure> columns_of(const std::vector<Compared>& runs) {
  std::vector<Measure> columns;
  for (const Compared& r : runs) {
    for (const Measure& m : r.task->measures) {
      if (m.leading && find_measure(columns, m.name) == nullptr) columns.push_back(m);
    }
  }
  return columns;
}

bool of_one_task(const std::vector<Compared>& runs) {
  return std::all_of(runs.begin(), runs.end(),
                     [&](const Compared& r) { return r.task == runs.front().task; });
}

// What a training went through, each time it did: "1.2 million tokens".
std::string seen_in(const train::Finished& f) {
  if (!(f.seen > 0)) return "";
  const bool many = f.seen >= 1e6;
  return fmt::format(
      "{} {}", many ? fmt::format("{:.1f} million", f.seen / 1e6) : fmt::format("{:.0f}", f.seen),
      f.unit);
}

report::Table table_of(const std::vector<Compared>& runs, const std::vector<Measure>& columns) {
  const bool mixed = !of_one_task(runs);
  report::Table t{{"run"}, {}};
  if (mixed) t.header.push_back("task");
  t.header.push_back("attention");
  for (const Measure& m : columns) t.header.push_back(m.title);
  t.header.insert(t.header.end(), {"seen", "minutes"});
  for (const Compared& r : runs) {
    std::vector<std::string>& row = t.rows.emplace_back();
    row.push_back(r.name);
    if (mixed) row.push_back(r.task->name);
    row.push_back(r.attention);
    for (const Measure& m : columns)
      row.push_back(shown(m, score_of(r.trained.test.scores, m.name)));
    row.push_back(seen_in(r.trained.finished));
    row.push_back(fmt::format("{:.1f}", r.trained.finished.seconds / 60));
  }
  return t;
}

bool scores_parts(const Breakdown& b, const Measure& m) {
  return std::any_of(b.parts.begin(), b.parts.end(), [&](const ScoredPart& part) {
    return std::any_of(part.scores.begin(), part.scores.end(),
                       [&](const auto& score) { return score.first == m.name; });
  });
}

// By the parts of the first run that has them; a run cut into others is left out of the picture.
report::Bars bars_of(const std::vector<Compared>& runs, const Breakdown& first, const Measure& m) {
  report::Bars bars{.x = first.by, .y = m.title};
  for (const ScoredPart& part : first.parts) bars.groups.push_back(label_of(part));
  for (const Compared& r : runs) {
    const Breakdown* b = find_breakdown(r.trained.test, first.by);
    if (b == nullptr || b->parts.size() != first.parts.size()) continue;
    bars.series.push_back(r.name);
    std::vector<double>& values = bars.values.emplace_back();
    for (size_t i = 0; i < first.parts.size(); ++i) {
      const bool same = label_of(b->parts[i]) == bars.groups[i];
      values.push_back(same ? score_of(b->parts[i].scores, m.name)
                            : std::numeric_limits<double>::quiet_NaN());
    }
  }
  return bars;
}

}  // namespace

report::Page compare_page(const std::vector<RunFolder>& folders) {
  std::vector<Compared> runs;
  for (const RunFolder& folder : folders) runs.push_back(read_run(folder));
  const std::vector<Measure> columns = columns_of(runs);
  report::Page page{.title = "Runs compared", .subtitle = "Each on what it held out itself"};
  if (of_one_task(runs)) page.title = runs.front().task->title + ": runs compared";
  page.sections.push_back({"Scores", {table_of(runs, columns)}});
  std::set<std::string> drawn;
  for (const Compared& r : runs) {
    for (const Breakdown& b : r.trained.test.breakdowns) {
      const auto m = std::find_if(columns.begin(), columns.end(),
                                  [&](const Measure& c) { return scores_parts(b, c); });
      if (m == columns.end() || !drawn.insert(b.by).second) continue;
      page.sections.push_back({m->title + " by " + b.by, {bars_of(runs, b, *m)}});
    }
  }
  return page;
}

}  // namespace fovea::tasks
