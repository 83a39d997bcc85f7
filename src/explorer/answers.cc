#include "explorer/answers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <fstream>

#include "fovea/error.h"
#include "io/base64.h"
#include "tasks/looked.h"
#include "tasks/page.h"

namespace fovea::explorer {
namespace fs = std::filesystem;
namespace {

constexpr size_t kExamples = 12;

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
            {"input", task.input == tasks::Input::text ? "text" : "file"},
            {"scored", task.scored},
            {"model", config->model()},
            {"attention", config->attention()},
            {"data", config->data_name()},
            {"finished", folder.is_finished()},
            {"usable", fs::exists(folder / "model.safetensors")}};
  if (folder.is_finished()) {
    const tasks::Trained trained = folder.results();
    j["scores"] = scores_of(task, trained.test.scores);
    j["seconds"] = trained.finished.seconds;
    j["steps"] = trained.finished.steps;
  }
  return j;
}

Json json_of(const tasks::Prediction& p) {
  Json maps = Json::array(), texts = Json::array(), pictures = Json::array();
  for (const report::Heatmap& m : p.maps) maps.push_back(for_page(m));
  for (const report::ShadedText& t : p.texts) texts.push_back(for_page(t));
  for (const report::SeenImage& image : p.images) {
    pictures.push_back(to_base64(report::drawing_of(std::vector{image}).svg));
  }
  for (const report::Scanpath& path : p.paths) {
    pictures.push_back(to_base64(report::drawing_of(std::vector{path}).svg));
  }
  return {{"text", p.text}, {"score", number(p.score)}, {"ended", p.ended},
          {"maps", maps},   {"texts", texts},           {"pictures", pictures}};
}

// A file that the page sent, for a task that reads files; gone with this.
class Upload {
 public:
  Upload(const std::string& name, const std::string& bytes) {
    std::string path = (fs::temp_directory_path() / "fovea-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr) throw Error("predict", "no folder for the file");
    folder_ = path;
    // The name for people, without any way out of the folder.
    std::string safe;
    for (const char c : fs::path(name).filename().string()) {
      safe += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' ? c : '_';
    }
    file_ = folder_ / (safe.empty() || safe[0] == '.' ? "file" : safe);
    std::ofstream(file_, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  ~Upload() {
    std::error_code none;
    fs::remove_all(folder_, none);
  }
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;
  std::string path() const { return file_.string(); }

 private:
  fs::path folder_, file_;
};

// Whether there are heads to look at, tried on an example.
bool has_heads(const Runs::Lent& lent, const Json& examples) {
  if (lent.task().input != tasks::Input::text || examples.empty()) return false;
  const auto inside = lent.run().inside(examples[0]["input"].get<std::string>());
  return inside && inside->hooked;
}

}  // namespace

std::string plain(const Error& e) {
  const std::string line = e.what(), tag = '[' + e.call() + "] ";
  return line.starts_with(tag) ? line.substr(tag.size()) : line;
}

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
      list.push_back({{"name", name}, {"error", plain(e)}});
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
  j["options"] = tasks::to_json(*folder.task().predict_settings());
  Json examples = Json::array();
  if (j["usable"].get<bool>()) {
    try {
      const Runs::Lent lent = runs.borrow(name);
      for (const tasks::Example& e : lent.run().examples(kExamples)) {
        examples.push_back({{"input", e.input}, {"expected", e.expected}});
      }
      j["blocks"] = lent.run().blocks(1).has_value();
      j["heads"] = has_heads(lent, examples);
    } catch (const Error& e) {  // the data are gone: the model still serves
      j["examples_missing"] = plain(e);
    }
  }
  j["examples"] = examples;
  return j;
}

Json curves_of(Runs& runs, const std::string& name) {
  const tasks::RunFolder folder = runs.folder(name);
  return {{"charts", json_of(tasks::training_charts(folder))}, {"finished", folder.is_finished()}};
}

Json looks_of(Runs& runs, const std::string& name) {
  const tasks::Looks looks = tasks::looks_of(runs.folder(name));
  Json each = Json::array();
  for (const tasks::LookedAt& at : looks.each) {
    Json maps = Json::array(), texts = Json::array();
    for (const report::Heatmap& m : at.drawn.maps) maps.push_back(for_page(m));
    for (const report::ShadedText& t : at.drawn.texts) texts.push_back(for_page(t));
    each.push_back({{"step", at.step}, {"output", at.output}, {"maps", maps}, {"texts", texts}});
  }
  return {{"input", looks.input}, {"looks", each}};
}

Json predict(Runs& runs, const std::string& name, const Json& asked, Caller& caller) {
  const Runs::Lent lent = runs.borrow(name);
  const auto settings = lent.task().predict_settings();
  if (asked.contains("settings")) {
    Json merged = tasks::to_json(*settings);
    merged.update(asked["settings"]);
    tasks::from_json(merged, *settings, "settings");
  }
  std::unique_ptr<Upload> upload;
  std::string input = asked.value("input", "");
  if (asked.contains("file")) {
    upload = std::make_unique<Upload>(asked.value("name", "file"),
                                      from_base64(asked["file"].get<std::string>()));
    input = upload->path();
  }
  tasks::Predicting how{.maps = tasks::Maps::keep, .done = giving_up(caller)};
  how.piece = [&](std::string_view) { how.done(0); };
  const auto began = std::chrono::steady_clock::now();
  const std::vector<tasks::Predictions> all =
      lent.run().predict(std::vector<std::string>{input}, *settings, how);
  Json predictions = Json::array();
  for (const tasks::Prediction& p : all.at(0)) predictions.push_back(json_of(p));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  return {
      {"input", asked.value("input", "")}, {"predictions", predictions}, {"seconds", took.count()}};
}

}  // namespace fovea::explorer
