#include <fmt/format.h>

#include <set>

#include "explorer/answers.h"
#include "explorer/asked.h"
#include "fovea/error.h"
#include "io/base64.h"
#include "io/json.h"

// Trainings from the page: what can be set, with what data, and what becomes of them.
namespace fovea::explorer {
namespace {

Json json_of(const Training::Job& job) {
  return {{"run", job.run},
          {"task", job.task},
          {"state", name_of(job.state)},
          {"failure", job.failure},
          {"done", job.done},
          {"seconds_left", number(job.seconds_left)},
          {"step", job.step},
          {"per_second", number(job.per_second)},
          {"unit", job.unit}};
}

Json json_of(const Uploads::File& f) {
  return {{"number", f.number}, {"name", f.name}, {"bytes", f.bytes}};
}

// Settings by the names that describe_task() gives, so none that names a file; as they are typed.
tasks::Given typed_in(const Json& asked, tasks::Settings& settings) {
  tasks::Given typed;
  if (!asked.contains("settings")) return typed;
  std::set<std::string> names;
  for (const Json& group : tasks::described(settings)) {
    for (const Json& field : group["fields"]) names.insert(field["name"].get<std::string>());
  }
  for (const auto& [name, value] : asked["settings"].items()) {
    if (!names.contains(name)) throw Error("train", fmt::format("there is no setting '{}'", name));
    typed[name] = value.is_string() ? value.get<std::string>() : value.dump();
  }
  return typed;
}

std::string run_in(const Json& asked) { return asked.at("run").get<std::string>(); }

}  // namespace

Json tasks_to_train() {
  Json list = Json::array();
  for (const tasks::Task* t : tasks::task_table()) {
    list.push_back({{"name", t->name},
                    {"title", t->title},
                    {"about", t->about},
                    {"demo", t->demo},
                    {"data", tasks::config_from(*t, {})->data_name()},
                    {"seconds", t->seconds}});
  }
  return list;
}

Json status_of(const Training& training) {
  const Training::Job latest = training.latest();
  Json j = json_of(latest), jobs = Json::array();
  j["running"] = latest.state == Training::State::running;
  for (const Training::Job& job : training.jobs()) jobs.push_back(json_of(job));
  j["jobs"] = jobs;
  return j;
}

Json describe_task(Training& training, const std::string& name) {
  const tasks::Task& task = tasks::task(name);
  Json uploads = Json::array();
  for (const Uploads::File& f : training.uploads().list()) uploads.push_back(json_of(f));
  // What suits data of one's own depends on that there are some, not on which.
  const auto own = tasks::config_from(task, {{task.data_field, "own"}});
  return {{"name", task.name},
          {"title", task.title},
          {"about", task.about},
          {"demo", task.demo},
          {"seconds", task.seconds},
          {"data_about", task.data_about},
          {"endings", task.data_endings},
          {"most_bytes", Uploads::kMostBytes},
          {"uploads", uploads},
          {"settings",
           {{"built_in", tasks::described(*tasks::config_from(task, {}))},
            {"own", tasks::described(*own)}}}};
}

Json take_upload(Training& training, const Json& asked) {
  const tasks::Task& task = tasks::task(asked.at("task").get<std::string>());
  const std::string bytes = from_base64(asked.at("file").get<std::string>());
  return json_of(training.uploads().add(task, asked.at("name").get<std::string>(), bytes));
}

Json begin_training(Runs& runs, Training& training, const Json& asked) {
  const tasks::Task& task = tasks::task(asked.at("task").get<std::string>());
  const int64_t upload = asked.contains("upload") ? whole_number(asked["upload"]) : 0;
  const std::filesystem::path run = training.begin(
      {.task = task.name, .settings = typed_in(asked, *task.config()), .upload = upload});
  runs.show(run);
  return {{"run", run.filename().string()}};
}

Json stop_training(Training& training, const Json& asked) {
  training.stop(run_in(asked));
  return {{"run", run_in(asked)}};
}

Json go_on_training(Runs& runs, Training& training, const Json& asked) {
  const tasks::RunFolder folder = runs.folder(run_in(asked));
  training.go_on(run_in(asked), folder, typed_in(asked, *folder.config()));
  return {{"run", run_in(asked)}};
}

}  // namespace fovea::explorer
