#pragma once

#include <CLI/CLI.hpp>

// The program's verbs, a file each. Each adds its subcommand; bad input throws fovea::Error.
namespace fovea::app {

void add_attend(CLI::App& program);
void add_info(CLI::App& program);
void add_demo(CLI::App& program);
void add_train(CLI::App& program);
void add_eval(CLI::App& program);
void add_predict(CLI::App& program);
void add_report(CLI::App& program);
void add_reproduce(CLI::App& program);

// FOVEA_VERBOSE=1
bool verbose();

}  // namespace fovea::app
