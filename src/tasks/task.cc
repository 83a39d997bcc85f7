#include "tasks/task.h"

#include <fmt/format.h>

#include "core/nearest.h"
#include "fovea/error.h"
#include "tasks/given_back.h"
#include "team/team.h"

namespace fovea::tasks {

ShareDone stopping(const Watching& watching) {
  const std::atomic<bool>* stop = watching.stop;
  if (watching.team->size() > 1) return {*watching.team, [](double) {}, stop};
  return [stop](double) {
    if (stop != nullptr && stop->load()) throw train::Stopped{};
  };
}

const char* name_of(Set s) {
  constexpr const char* kNames[] = {"train", "valid", "test"};
  return kNames[static_cast<size_t>(s)];
}

std::string described(Set s) {
  constexpr const char* kNames[] = {"the training set",
                                    "the validation set, which chose the weights", "the test set"};
  return kNames[static_cast<size_t>(s)];
}

std::string changed_data(const Run& run) {
  const std::string before = run.config().fingerprint;
  if (before.empty() || before == run.fingerprint()) return {};
  return fmt::format(
      "the data changed since the training (fingerprint {}, was {}): what follows is "
      "of the data as they are now",
      run.fingerprint(), before);
}

GivenBack Run::given_back() const {
  throw Error("export",
              fmt::format("transformers has no architecture for this model ({}): language "
                          "models are given back, and what began with --from",
                          config().model()));
}

const Task& task(const std::string& name) {
  std::vector<std::string> names;
  for (const Task* t : task_table()) {
    if (t->name == name) return *t;
    names.push_back(t->name);
  }
  throw Error("task", fmt::format("there is no task \"{}\"{}", name, nearest_hint(name, names)));
}

}  // namespace fovea::tasks
