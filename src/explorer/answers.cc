#include "explorer/answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "explorer/asked.h"
#include "fovea/error.h"
#include "image/resize.h"
#include "report/packed.h"
#include "tasks/explain.h"
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
            {"finished", folder.is_finished() || folder.is_checkpoint()},
            {"report", folder.is_finished()},
            {"resumable", folder.has_state()},
            {"limits",
             {{"steps", config->train.steps},
              {"epochs", config->train.epochs},
              {"minutes", config->train.minutes}}},
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

// What the run can be asked, tried on an example: the page offers nothing else.
struct Answerable {
  std::vector<tasks::By> ways;
  bool heads = false;  // of a Transformer
  bool look = false;   // one that other weights can be given to
};
Answerable answerable(const Runs::Opened& opened, const std::vector<tasks::Example>& examples) {
  const bool text = opened.task->takes == tasks::Takes::text;
  try {
    if (examples.empty() && !text) return {};
    const tasks::Input input = examples.empty() ? tasks::Text{"a"} : examples.front().input;
    const std::optional<tasks::Inside> inside = opened.run->inside(input);
    if (!inside) return {};
    return {tasks::ways_for(*inside),
            inside->opens != tasks::Inside::Opens::outputs && inside->attention,
            inside->look != nullptr};
  } catch (const Error&) {
    return {};
  }
}

// None where the data are gone: the model still serves.
std::vector<tasks::Example> examples_of(const Runs::Opened& opened, Json& run) {
  try {
    std::vector<tasks::Example> some = opened.run->examples(kExamples);
    run["blocks"] = opened.run->blocks(1).has_value();
    return some;
  } catch (const Error& e) {
    run["examples_missing"] = std::string(e.message());
    return {};
  }
}

void put(Json& run, const Answerable& can) {
  Json& ways = run["ways"] = Json::array();
  for (const tasks::By by : can.ways) ways.push_back(name_of(by));
  run["heads"] = can.heads;
  run["look"] = can.look;
}

// What the model has no token for; nothing where it knows all.
Json unknown_in(const std::vector<tasks::Piece>& pieces) {
  Json texts = Json::array(), unknown = Json::array();
  for (size_t i = 0; i < pieces.size(); ++i) {
    texts.push_back(pieces[i].text);
    if (!pieces[i].known) unknown.push_back(i);
  }
  if (unknown.empty()) return {};
  return {{"pieces", texts}, {"unknown", unknown}, {"instead", tasks::kUnknownShown}};
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
  return {{"runs", list},
          {"chosen", runs.chosen()},
          {"tasks", tasks_to_train()},
          {"training", status_of(training)}};
}

Json describe_run(Runs& runs, const std::string& name) {
  const tasks::RunFolder folder = runs.folder(name);
  Json j = summary_of(name, folder);
  j["settings"] = tasks::to_json(*folder.config());
  j["options"] = tasks::to_json(*folder.task().predict_settings(), tasks::Files::refused);
  j["most_text"] = kMostText;
  Json examples = Json::array();
  Answerable can;
  if (j["usable"].get<bool>()) {
    try {
      const Runs::Opened opened = runs.open(name);
      const std::vector<tasks::Example> some = examples_of(opened, j);
      for (const tasks::Example& e : some) {
        Json& made =
            examples.emplace_back(Json{{"input", name_of(e.input)}, {"expected", e.expected}});
        if (!e.image.pixels.empty()) made["image"] = thumbnail_of(e.image);
      }
      can = answerable(opened, some);
      j["table"] = !opened.run->solved(tasks::Set::test, 1).empty();
    } catch (const Error& e) {
      j["examples_missing"] = std::string(e.message());
    }
  }
  j["examples"] = examples;
  put(j, can);
  return j;
}

Json curves_of(Runs& runs, const std::string& name) {
  const tasks::RunFolder folder = runs.folder(name);
  if (folder.is_checkpoint()) return {{"charts", Json::array()}, {"finished", true}};
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
  Json answer = {
      {"input", asked.value("input", "")}, {"predictions", predictions}, {"seconds", took.count()}};
  if (std::holds_alternative<tasks::Text>(about)) {
    if (Json unknown = unknown_in(opened.run->pieces(about)); !unknown.is_null()) {
      answer["read"] = std::move(unknown);
    }
  }
  return answer;
}

}  // namespace fovea::explorer
