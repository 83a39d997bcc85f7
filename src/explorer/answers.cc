#include "explorer/answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "explorer/asked.h"
#include "fovea/error.h"
#include "image/resize.h"
#include "report/packed.h"
#include "tasks/looked.h"
#include "tasks/page.h"

namespace fovea::explorer {
namespace fs = std::filesystem;
namespace {

constexpr size_t kExamples = 12;

// An example's image, small enough for a dozen of them.
std::string thumbnail_of(const image::Image& image) {
  constexpr int64_t kSide = 96;
  const bool small = std::max(image.height, image.width) <= kSide;
  return report::packed(small ? image : image::fitted(image, kSide, kSide));
}

Json scores_of(const tasks::Task& task, const train::Scores& scores) {
  Json list = Json::array();
  for (const tasks::Measure& m : task.measures) {
    const double value = tasks::score_of(scores, m.name);
    if (!m.leading || std::isnan(value)) continue;
    list.push_back({{"title", m.title}, {"value", tasks::shown(m, value)}});
  }
  return list;
}

Json summary_of(const std::string& name, const tasks::RunFolder& folder) {
  const tasks::Task& task = folder.task();
  const auto config = folder.config();
  Json j = {{"name", name},
            {"task", task.name},
            {"title", task.title},
            {"input", task.takes == tasks::Takes::text ? "text" : "file"},
            {"scored", task.scored},
            {"model", config->model()},
            {"attention", config->attention()},
            {"data", config->data_name()},
            {"finished", folder.is_finished()},
            {"usable", folder.has_model()}};
  if (folder.is_finished()) {
    const tasks::Trained trained = folder.results();
    j["scores"] = scores_of(task, trained.test.scores);
    j["seconds"] = trained.finished.seconds;
    j["steps"] = trained.finished.steps;
  }
  return j;
}

Json json_of(const tasks::Prediction& p) {
  return {{"text", p.text},
          {"score", number(p.score)},
          {"ended", p.ended},
          {"pictures", packed(p.pictures)}};
}

// What can be seen inside, tried on an example.
struct Shown {
  bool inside = false, heads = false;
};
Shown shown_inside(const Runs::Opened& opened, const std::vector<tasks::Example>& examples) {
  Shown shown{.inside = opened.task->takes == tasks::Takes::text};
  if (examples.empty()) return shown;
  try {
    const std::optional<tasks::Inside> inside = opened.run->inside(examples.front().input);
    shown = {.inside = inside.has_value(), .heads = inside && inside->hooked};
  } catch (const Error&) {
  }
  return shown;
}

}  // namespace

Json number(double x) { return std::isfinite(x) ? Json(x) : Json(); }

Json json_of(const report::Table& t) { return {{"header", t.header}, {"rows", t.rows}}; }

Json json_of(const std::vector<report::Chart>& all) {
  Json charts = Json::array();
  for (const report::Chart& chart : all) {
    Json curves = Json::array();
    for (const report::Curve& c : chart.curves) {
      Json points = Json::array();
      for (const auto& [x, y] : c.points) points.push_back({number(x), number(y)});
      curves.push_back({{"name", c.name}, {"points", points}});
    }
    charts.push_back({{"x", chart.x}, {"y", chart.y}, {"log", chart.log_y}, {"curves", curves}});
  }
  return charts;
}

Json list_runs(Runs& runs, const Training& training) {
  Json list = Json::array();
  for (const std::string& name : runs.names()) {
    try {
      list.push_back(summary_of(name, runs.folder(name)));
    } catch (const Error& e) {
      list.push_back({{"name", name}, {"error", std::string(e.message())}});
    } catch (const NotThere&) {  // removed meanwhile
    }
  }
  Json tasks = Json::array();
  for (const tasks::Task* t : tasks::task_table()) {
    tasks.push_back({{"name", t->name}, {"title", t->title}, {"about", t->about}});
  }
  const Training::Status status = training.status();
  return {{"runs", list},
          {"tasks", tasks},
          {"training",
           {{"run", status.run},
            {"running", status.running},
            {"done", status.done},
            {"seconds_left", number(status.seconds_left)},
            {"failure", status.failure}}}};
}

Json describe_run(Runs& runs, const std::string& name) {
  const tasks::RunFolder folder = runs.folder(name);
  Json j = summary_of(name, folder);
  j["settings"] = tasks::to_json(*folder.config());
  j["options"] = tasks::to_json(*folder.task().predict_settings(), tasks::Files::refused);
  j["most_text"] = kMostText;
  Json examples = Json::array();
  Shown shown{.inside = folder.task().takes == tasks::Takes::text};
  if (j["usable"].get<bool>()) {
    try {
      const Runs::Opened opened = runs.open(name);
      const std::vector<tasks::Example> some = opened.run->examples(kExamples);
      for (const tasks::Example& e : some) {
        Json& made =
            examples.emplace_back(Json{{"input", name_of(e.input)}, {"expected", e.expected}});
        if (!e.image.pixels.empty()) made["image"] = thumbnail_of(e.image);
      }
      j["blocks"] = opened.run->blocks(1).has_value();
      shown = shown_inside(opened, some);
    } catch (const Error& e) {  // the data are gone: the model still serves
      j["examples_missing"] = std::string(e.message());
    }
  }
  j["examples"] = examples;
  j["inside"] = shown.inside;
  j["heads"] = shown.heads;
  return j;
}

Json curves_of(Runs& runs, const std::string& name) {
  const tasks::RunFolder folder = runs.folder(name);
  return {{"charts", json_of(tasks::training_charts(folder))}, {"finished", folder.is_finished()}};
}

Json looks_of(Runs& runs, const std::string& name) {
  const tasks::LookHistory looks = tasks::looks_of(runs.folder(name));
  Json each = Json::array();
  for (const tasks::LookedAt& at : looks.each) {
    each.push_back({{"step", at.step}, {"output", at.output}, {"pictures", packed(at.pictures)}});
  }
  return {{"input", looks.input}, {"looks", each}};
}

Json predict(Runs& runs, const std::string& name, const Json& asked, Caller& caller) {
  const Runs::Opened opened = runs.open(name);
  const auto settings = opened.task->predict_settings();
  if (asked.contains("settings")) take_settings(asked["settings"], *settings);
  const tasks::Input about = asked_about(*opened.task, asked);
  tasks::Predicting how{.maps = tasks::Maps::keep, .done = giving_up(caller)};
  how.piece = [&](std::string_view) { how.done(0); };
  const auto began = std::chrono::steady_clock::now();
  Json predictions = Json::array();
  const auto all = opened.run->predict({&about, 1}, *settings, how);
  for (const tasks::Prediction& p : all.at(0)) predictions.push_back(json_of(p));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  return {
      {"input", asked.value("input", "")}, {"predictions", predictions}, {"seconds", took.count()}};
}

}  // namespace fovea::explorer
