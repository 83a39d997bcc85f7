#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

// The program's verbs, a file each. Each adds its subcommand; bad input throws fovea::Error.
namespace fovea::app {

using Arguments = std::vector<std::string>;  // all that was typed after the program's name

void add_attend(CLI::App& program);
void add_info(CLI::App& program);
void add_demo(CLI::App& program);
void add_train(CLI::App& program);
// The task of the run that was typed adds options of its own.
void add_eval(CLI::App& program, const Arguments&);
void add_predict(CLI::App& program, const Arguments&);
void add_report(CLI::App& program);
void add_reproduce(CLI::App& program);
void add_rank(CLI::App& program);
void add_serve(CLI::App& program);
void add_explain(CLI::App& program);
void add_faithful(CLI::App& program);
void add_tokens(CLI::App& program);
void add_export(CLI::App& program);

// FOVEA_VERBOSE=1
bool verbose();

// The whole program, as main() gets it; what it returns is the exit status.
int run_program(int argc, char** argv);

}  // namespace fovea::app
