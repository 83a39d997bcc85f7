#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "tasks/config.h"

namespace fovea::app {

// Options for every field of a config, kept as they were typed: defaults may depend on some of
// them, so they are applied by tasks::from_options() once all are known.
using Given = std::map<std::string, std::string>;
void add_fields(CLI::App&, Given&, const tasks::Visit&);

}  // namespace fovea::app
