#include <fmt/format.h>

#include <filesystem>

#include "app/verbs.h"
#include "tasks/translate.h"

namespace fovea::app {

void add_report(CLI::App& program) {
  CLI::App* verb = program.add_subcommand(
      "report", "Write a run's report.html anew: curves, scores, alignments");
  auto run = std::make_shared<std::string>();
  verb->add_option("RUN", *run, "The run folder")->required();
  verb->callback([run] {
    tasks::write_report(*run);
    fmt::print("{}\n", (std::filesystem::path(*run) / "report.html").string());
  });
}

}  // namespace fovea::app
