#include "explorer/answers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "fovea/error.h"
#include "io/base64.h"
#include "tasks/page.h"

namespace fovea::explorer {
namespace fs = std::filesystem;
namespace {

constexpr size_t kExamples = 12;

struct Cancelled {};

// Ends work that nobody waits for any more.
tasks::ShareDone giving_up(const Caller& caller) {
  return [&caller](double) {
    if (caller.gone()) throw Cancelled();
  };
}

// As JSON has it: no NaN.
Json number(double x) { return std::isfinite(x) ? Json(x) : Json(); }

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

Json error_json(const std::string& what) { return {{"error", what}}; }

Response json_response(const Json& j, int status = 200) {
  return {.status = status, .body = j.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

std::string plain(const Error& e) {
  const std::string line = e.what(), tag = '[' + e.call() + "] ";
  return line.starts_with(tag) ? line.substr(tag.size()) : line;
}

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  for (size_t at = 1; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    parts.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

Json body_of(const Request& request) {
  const Json j = Json::parse(request.body, nullptr, false);
  if (!j.is_object()) throw Error("request", "the body is no JSON object");
  return j;
}

Response route(const Request& request, Caller& caller, Runs& runs, Training& training) {
  const std::vector<std::string> parts = parts_of(request.path);
  const size_t n = parts.size();
  const bool get = request.method != "POST";
  if (n == 2 && parts[1] == "runs" && get) return json_response(list_runs(runs, training));
  if (n == 3 && parts[1] == "runs" && get) return json_response(describe_run(runs, parts[2]));
  if (n == 4 && parts[1] == "runs" && get && parts[3] == "log") {
    return json_response(curves_of(runs, parts[2]));
  }
  if (n == 4 && parts[1] == "runs" && !get && parts[3] == "predict") {
    return json_response(predict(runs, parts[2], body_of(request), caller));
  }
  if (n == 2 && parts[1] == "ways" && get) return json_response(ways_of_looking());
  if (n == 4 && parts[1] == "runs" && !get && parts[3] == "explain") {
    return json_response(explain(runs, parts[2], body_of(request), giving_up(caller)));
  }
  if (n == 4 && parts[1] == "runs" && !get && parts[3] == "hold") {
    return json_response(hold(runs, parts[2], body_of(request)));
  }
  if (n == 3 && parts[1] == "draw" && !get) {
    const Json asked = body_of(request);
    Drawn drawn;
    for (const Json& m : asked.value("maps", Json::array())) drawn.maps.push_back(heatmap_from(m));
    for (const Json& t : asked.value("texts", Json::array())) drawn.texts.push_back(shaded_from(t));
    return draw(drawn, parts[2]);
  }
  if (n == 2 && parts[1] == "train" && !get) {
    return json_response({{"run", training.begin(body_of(request).at("task").get<std::string>())}});
  }
  throw NotThere{"no such page"};
}

}  // namespace

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
      for (const tasks::Example& e : runs.borrow(name).run().examples(kExamples)) {
        examples.push_back({{"input", e.input}, {"expected", e.expected}});
      }
    } catch (const Error& e) {  // the data are gone: the model still serves
      j["examples_missing"] = plain(e);
    }
  }
  j["examples"] = examples;
  return j;
}

Json curves_of(Runs& runs, const std::string& name) {
  const tasks::RunFolder folder = runs.folder(name);
  Json charts = Json::array();
  for (const report::Chart& chart : tasks::training_charts(folder)) {
    Json curves = Json::array();
    for (const report::Curve& c : chart.curves) {
      Json points = Json::array();
      for (const auto& [x, y] : c.points) points.push_back({number(x), number(y)});
      curves.push_back({{"name", c.name}, {"points", points}});
    }
    charts.push_back({{"x", chart.x}, {"y", chart.y}, {"curves", curves}});
  }
  return {{"charts", charts}, {"finished", folder.is_finished()}};
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

Response answer(const Request& request, Caller& caller, Runs& runs, Training& training) {
  try {
    return route(request, caller, runs, training);
  } catch (const NotThere& e) {
    return json_response(error_json(e.what), 404);
  } catch (const Cancelled&) {
    return json_response(error_json("cancelled"), 409);
  } catch (const Error& e) {
    return json_response(error_json(plain(e)), 422);
  } catch (const Json::exception& e) {
    return json_response(error_json(std::string("the request is malformed: ") + e.what()), 400);
  }
}

}  // namespace fovea::explorer
