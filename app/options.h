#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "app/verbs.h"
#include "tasks/fields.h"
#include "tasks/task.h"

namespace fovea::app {

// A check of options that name something: a script's variable that is not set is no name.
std::string not_empty(const std::string& typed);

// One word of a shell's, quoted where it must be: printed commands can be pasted.
std::string as_typed(const std::string& word);

// Options for every field, kept as they were typed: defaults may depend on some of them, so they
// are applied by tasks::from_options() once all are known.
void add_fields(CLI::App&, tasks::Given&, tasks::Settings&);

// The task of the first run folder among what was typed for this verb, or null.
const tasks::Task* task_of_run_in(const CLI::App& verb, const Arguments& typed);
// The options that this task adds to the verb; where no run is named, a list of all tasks' own.
void add_task_options(CLI::App& verb, tasks::Given&, const Arguments& typed,
                      std::unique_ptr<tasks::Settings> (*tasks::Task::*settings)());

}  // namespace fovea::app
