#include <fmt/format.h>

#include <filesystem>

#include "app/verbs.h"
#include "tasks/reproduce.h"

namespace fovea::app {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::vector<std::string> runs;
  std::string out;
};

void run(const Options& o) {
  if (o.runs.size() == 1) {
    const fs::path page = o.out.empty() ? fs::path(o.runs[0]) / "report.html" : fs::path(o.out);
    report::write_page(page, tasks::translate_page(o.runs[0]));
    fmt::print("{}\n", page.string());
    return;
  }
  const report::Page page = tasks::compare_page({o.runs.begin(), o.runs.end()});
  fmt::print("{}", tasks::tables_as_text(page));
  if (o.out.empty()) return;
  report::write_page(o.out, page);
  fmt::print("{}\n", o.out);
}

}  // namespace

void add_report(CLI::App& program) {
  CLI::App* verb =
      program.add_subcommand("report",
                             "Write a run's report.html anew, or compare several runs.\n"
                             "  fovea report runs/demo\n"
                             "  fovea report runs/none runs/soft runs/hard --out compared.html");
  auto o = std::make_shared<Options>();
  verb->add_option("RUN", o->runs, "The run folder; several are compared in a table")->required();
  verb->add_option("--out", o->out, "The page [RUN/report.html; none when comparing]");
  verb->callback([o] { run(*o); });
}

}  // namespace fovea::app
