#include "tasks/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "fovea/error.h"
#include "tasks/json_lines.h"
#include "tasks/speed.h"

namespace fovea::tasks {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr size_t kExamples = 12;

struct Log {
  report::Curve train{"training", {}}, valid{"validation", {}}, rate{"rate", {}};
  std::vector<report::Curve> scores;  // of validations
};

std::vector<Measure> leading(const Task& task) {
  std::vector<Measure> some;
  for (const Measure& m : task.measures) {
    if (m.leading) some.push_back(m);
  }
  return some;
}

void add_validation(Log& log, double step, const Json& valid, const std::vector<Measure>& curves) {
  const auto add = [&](report::Curve& curve, const std::string& name) {
    const auto found = valid.find(name);
    if (found != valid.end() && found->is_number()) {
      curve.points.emplace_back(step, found->get<double>());
    }
  };
  add(log.valid, "loss");
  for (size_t i = 0; i < curves.size(); ++i) add(log.scores[i], curves[i].name);
}

Log read_log(const fs::path& file, const Task& task) {
  Log log;
  std::vector<Measure> curves = leading(task);  // those that share an axis
  std::erase_if(curves, [](const Measure& m) { return m.better == Better::lower; });
  for (const Measure& m : curves) log.scores.push_back({m.title, {}});
  for (const Json& j : json_lines(file)) {
    if (!j.is_object() || !j.contains("step") || !j["step"].is_number()) continue;
    const auto step = j["step"].get<double>();
    const auto number = [&](const char* name, report::Curve& curve) {
      if (j.contains(name) && j[name].is_number())
        curve.points.emplace_back(step, j[name].get<double>());
    };
    number("loss", log.train);
    number("rate", log.rate);
    if (j.contains("valid")) add_validation(log, step, j["valid"], curves);
  }
  std::erase_if(log.scores, [](const report::Curve& c) { return c.points.empty(); });
  return log;
}

report::Section scores_of(const Task& task, const Evaluation& e, Set set) {
  report::Table table{{"measure", "value"}, {}};
  for (const auto& [name, value] : e.scores) {
    const Measure* m = find_measure(task.measures, name);
    table.rows.push_back({m ? m->title : name, m ? shown(*m, value) : fmt::format("{}", value)});
  }
  return {"Scores",
          {report::Text{fmt::format("{} {} of {}.", e.count, e.unit, described(set))}, table}};
}

report::Section breakdown_of(const Task& task, const Evaluation& e, const Breakdown& b) {
  report::Bars bars{.x = b.by, .y = "score"};
  for (const ScoredPart& part : b.parts) bars.groups.push_back(label_of(part));
  for (const Measure& m : leading(task)) {
    std::vector<double> values;
    for (const ScoredPart& part : b.parts) values.push_back(score_of(part.scores, m.name));
    if (std::all_of(values.begin(), values.end(), [](double v) { return std::isnan(v); })) continue;
    bars.series.push_back(m.title);
    bars.values.push_back(values);
  }
  report::Section s{"Scores by " + b.by, {bars}};
  if (bars.series.empty()) s = {"By " + b.by, {table_of(e, b)}};
  return s;
}

report::Picture captioned(const report::Picture& p, const report::Answered& a) {
  const report::PictureKind& kind = p.kind();
  return kind.titled(p, kind.caption != nullptr ? kind.caption(a) : a.input + " → " + a.output);
}

// Below its title, what the model looked at for each example; a table of answers where pictures do
// not say whether they are right, and where there are none.
report::Section examples_of(const Task& task, const Run& run) {
  const std::vector<Example> examples = run.examples(kExamples);
  std::vector<Input> asked;
  for (const Example& e : examples) asked.push_back(e.input);
  const auto predicted = run.predict(asked, *task.predict_settings(), {.maps = Maps::keep});
  report::Table table{{"input", "output", "expected"}, {}};
  report::Pictures shown;
  for (size_t i = 0; i < examples.size(); ++i) {
    const Prediction& best = predicted[i].front();
    const report::Answered answered{name_of(examples[i].input), best.text, examples[i].expected,
                                    best.score};
    table.rows.push_back({answered.input, answered.output, answered.expected});
    for (const report::Picture& p : best.pictures) shown.items.push_back(captioned(p, answered));
  }
  report::Section s{"Examples", {}};
  const report::PictureKind* kind = shown.items.empty() ? nullptr : &shown.items.front().kind();
  if (kind == nullptr || kind->caption == nullptr) s.blocks.push_back(std::move(table));
  if (kind == nullptr) return s;
  s.blocks.push_back(report::Text{kind->about});
  s.blocks.push_back(std::move(shown));
  return s;
}

report::Section settings_of(TaskConfig& config) {
  report::Table table{{"setting", "value"}, {}};
  const Json settings = to_json(config);
  for (const auto& [name, value] : settings.items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (!text.empty()) table.rows.push_back({name, text});
  }
  return {"Settings", {table}};
}

}  // namespace

std::string shown(const Measure& m, double value) {
  return std::isnan(value) ? "" : fmt::format("{:.{}f}", value, m.digits);
}

std::vector<report::Chart> training_charts(const RunFolder& folder) {
  const Log log = read_log(folder / "log.jsonl", folder.task());
  std::vector<report::Chart> charts{{.x = "step", .y = "loss", .curves = {log.train, log.valid}}};
  if (!log.scores.empty()) {
    charts.push_back({.x = "step", .y = "validation score", .curves = log.scores});
  }
  charts.push_back({.x = "step", .y = "learning rate", .curves = {log.rate}});
  const Speed speed = speed_of(folder);
  if (!speed.points.empty()) {
    charts.push_back(
        {.x = "step", .y = speed.unit + " a second", .curves = {{"speed", speed.points}}});
  }
  return charts;
}

report::Page page_of(const RunFolder& folder, const Run& run, const Trained& trained) {
  const Task& task = folder.task();
  report::Page page{.title = task.title + ": " + folder.name(),
                    .subtitle = run.config().model() + "; attention: " + run.config().attention()};
  for (const Measure& m : leading(task)) {
    const double value = score_of(trained.test.scores, m.name);
    if (!std::isnan(value)) page.headline.emplace_back(m.title, shown(m, value));
  }
  page.headline.emplace_back("training", fmt::format("{:.0f} s", trained.finished.seconds));
  page.headline.emplace_back("weights",
                             fmt::format("{:.2f} M", static_cast<double>(run.weights()) / 1e6));
  page.sections.push_back(scores_of(task, trained.test, run.held_out_set()));
  for (const Breakdown& b : trained.test.breakdowns) {
    page.sections.push_back(breakdown_of(task, trained.test, b));
  }
  page.sections.push_back(examples_of(task, run));
  for (report::Section& section : run.sections()) page.sections.push_back(std::move(section));
  report::Section training{"Training", {}};
  for (const report::Chart& chart : training_charts(folder)) training.blocks.emplace_back(chart);
  page.sections.push_back(training);
  page.sections.push_back(settings_of(*folder.config()));
  return page;
}

report::Page page_of(const RunFolder& folder, const Watching& watching) {
  const Task& task = folder.task();
  const Trained results = folder.results();
  const std::unique_ptr<const Run> run = task.open(folder);
  report::Page page = page_of(folder, *run, results);
  if (const std::string line = changed_data(*run); !line.empty()) {
    if (watching.say) watching.say(line);
    page.sections.insert(page.sections.begin(),
                         {"Examples are of other data",
                          {report::Text{"Scores are those of the training; " + line + "."}}});
  }
  return page;
}

}  // namespace fovea::tasks
