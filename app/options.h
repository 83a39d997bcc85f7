#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/verbs.h"
#include "tasks/fields.h"
#include "tasks/task.h"

namespace fovea::app {

// A check of options that name something: a script's variable that is not set is no name.
std::string not_empty(const std::string& typed);
std::string above_zero(const std::string& typed);

// What --weights is, of models that others trained (checkpoints/kept.h).
inline constexpr const char* kKeptHelp =
    "What a model's weights are kept as: stored, float32, bf16 or int8 (by rows)";

// Options for every field, kept as they were typed: defaults may depend on some of them, so they
// are applied by tasks::from_options() once all are known. `own` has the defaults for data of the
// user's, by their names: the help says both where they differ.
void add_fields(CLI::App&, tasks::Given&, tasks::Settings&,
                const nlohmann::ordered_json& own = nlohmann::ordered_json::object());

// The task of the first run folder among what was typed for this verb, or null.
const tasks::Task* task_of_run_in(const CLI::App& verb, const Arguments& typed);
// The options that this task adds to the verb; where no run is named, a list of all tasks' own.
void add_task_options(CLI::App& verb, tasks::Given&, const Arguments& typed,
                      std::unique_ptr<tasks::Settings> (*tasks::Task::*settings)());

}  // namespace fovea::app
